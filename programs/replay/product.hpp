// The matrix product that follows a dequantization: activations times transposed weights, by
// cuBLAS.
#pragma once

#include <cublas_v2.h>

#include <cstdint>
#include <string>

#include "profiling/cuda_check.hpp"
#include "reference/float16.hpp"

namespace reprolab::nf4 {

class Product {
 public:
  /// Allocates activations of `batch` rows and up to `longest` features in and out. Loads cuBLAS.
  Product(int batch, std::int64_t longest, reference::WeightType type, cudaStream_t stream);
  ~Product();
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  /// Why products cannot be computed here; empty if they can.
  const std::string& why_not() const { return why_not_; }

  /// [batch, rows] = [batch, columns] x transposed [rows, columns]; in the type of the weights,
  /// sums in fp32, as torch.nn.functional.linear does it. `weights` is row-major in device memory.
  /// Throws std::runtime_error with cuBLAS's name for the error.
  void multiply(const void* weights, std::int64_t rows, std::int64_t columns, int batch) const;

 private:
  struct Functions {
    decltype(&cublasCreate_v2) create = nullptr;
    decltype(&cublasDestroy_v2) destroy = nullptr;
    decltype(&cublasSetStream_v2) set_stream = nullptr;
    // Type written out, because the header overloads the function.
    cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                           const void*, const void*, cudaDataType, int, const void*, cudaDataType,
                           int, const void*, void*, cudaDataType, int, cublasComputeType_t,
                           cublasGemmAlgo_t) = nullptr;
    decltype(&cublasGetStatusName) status_name = nullptr;
  };
  std::string load();
  void check(cublasStatus_t status) const;

  Functions cublas_;
  std::string why_not_;
  cublasHandle_t handle_ = nullptr;
  cudaDataType_t type_;
  profiling::DeviceBuffer input_, output_;
};

}  // namespace reprolab::nf4
