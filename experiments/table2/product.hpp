// The matrix product that follows a dequantization: activations times transposed weights, by
// cuBLAS.
#pragma once

#include <cublas_v2.h>

#include <cstdint>

#include "profiling/cuda_check.hpp"

namespace reprolab::table2 {

/// Throws std::runtime_error with cuBLAS's name for the status.
void check(cublasStatus_t status, const char* what);

class Product {
 public:
  /// Room for activations of `batch` rows and up to `longest` features in and out.
  Product(int batch, std::int64_t longest, cudaStream_t stream);
  ~Product();
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  /// [batch, rows] = [batch, columns] x transposed [rows, columns]; fp16, sums in fp32, as
  /// torch.nn.functional.linear does it. `weights` is row-major in device memory.
  void multiply(const void* weights, std::int64_t rows, std::int64_t columns, int batch);

 private:
  cublasHandle_t handle_ = nullptr;
  profiling::DeviceBuffer input_, output_;
};

}  // namespace reprolab::table2
