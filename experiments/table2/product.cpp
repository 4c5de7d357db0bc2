#include "experiments/table2/product.hpp"

#include <stdexcept>
#include <string>
#include <vector>

#include "reference/normal_weights.hpp"

namespace reprolab::table2 {

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string(what) + ": " + cublasGetStatusName(status));
}

Product::Product(int batch, std::int64_t longest, cudaStream_t stream)
    : input_(2 * static_cast<std::uint64_t>(batch * longest)),
      output_(2 * static_cast<std::uint64_t>(batch * longest)) {
  check(cublasCreate(&handle_), "cuBLAS");
  check(cublasSetStream(handle_, stream), "cuBLAS");
  // Random activations: constant ones make the GPU draw less power, and run faster, than real ones.
  std::vector<std::uint16_t> activations(static_cast<std::size_t>(batch * longest));
  reference::normal_weights(2, 0, reference::WeightType::fp16, 1.0f, activations);
  profiling::check(
      cudaMemcpy(input_.data(), activations.data(), input_.bytes(), cudaMemcpyHostToDevice),
      "copying activations to the GPU");
}

Product::~Product() { cublasDestroy(handle_); }

void Product::multiply(const void* weights, std::int64_t rows, std::int64_t columns, int batch) {
  const float one = 1.0f, zero = 0.0f;
  // cuBLAS counts in columns: row-major [rows, columns] is its [columns, rows].
  check(
      cublasGemmEx(handle_, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(rows), batch,
                   static_cast<int>(columns), &one, weights, CUDA_R_16F, static_cast<int>(columns),
                   input_.data(), CUDA_R_16F, static_cast<int>(columns), &zero, output_.data(),
                   CUDA_R_16F, static_cast<int>(rows), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
      "matrix product");
}

}  // namespace reprolab::table2
