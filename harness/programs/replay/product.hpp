// The matrix product that follows a dequantization: activations times transposed weights, by
// cuBLAS.
#pragma once

#include <library_types.h>

#include <cstdint>
#include <string>

#include "profiling/cuda_check.hpp"
#include "reference/float16.hpp"

namespace reprolab::nf4 {

class Product {
 public:
  /// Allocates activations of `batch` rows and up to `longest` features in and out. Loads cuBLAS.
  Product(int batch, std::int64_t longest, reference::WeightType type, cudaStream_t stream);

  /// Why products cannot be computed here; passes then contain none. Empty if they can.
  static std::string why_not();

  /// [batch, rows] = [batch, columns] x transposed [rows, columns]; in the type of the weights,
  /// sums in fp32, as torch.nn.functional.linear does it. `weights` is row-major in device memory.
  /// Throws std::runtime_error with cuBLAS's name of the error.
  void multiply(const void* weights, std::int64_t rows, std::int64_t columns, int batch) const;

 private:
  cudaDataType type_;
  profiling::DeviceBuffer input_, output_;
};

}  // namespace reprolab::nf4
