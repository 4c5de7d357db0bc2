#include "programs/replay/product.hpp"

#include <stdexcept>
#include <string>
#include <vector>

#include "reference/nf4/normal_weights.hpp"

namespace reprolab::nf4 {
namespace {

CublasGemmEx gemm = nullptr;

/// Loaded on first use, so that a replay also starts without it.
const CublasHandle& cublas() {
  static const CublasHandle instance({{gemm, "cublasGemmEx"}});
  return instance;
}

}  // namespace

Product::Product(int batch, std::int64_t longest, reference::WeightType type, cudaStream_t stream)
    : cublas_(cublas()), type_(type == reference::WeightType::fp16 ? CUDA_R_16F : CUDA_R_16BF) {
  if (!why_not().empty()) return;
  input_ = profiling::DeviceBuffer(2 * static_cast<std::uint64_t>(batch * longest));
  output_ = profiling::DeviceBuffer(input_.bytes());
  check(cublas_.set_stream(cublas_.handle, stream));
  // Random activations: constant ones make the GPU draw less power, and run faster, than real ones.
  std::vector<std::uint16_t> activations(static_cast<std::size_t>(batch * longest));
  reference::normal_weights(2, 0, type, 1.0f, activations);
  profiling::check(
      cudaMemcpy(input_.data(), activations.data(), input_.bytes(), cudaMemcpyHostToDevice),
      "copying activations to the GPU");
}

void Product::check(cublasStatus_t status) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string("matrix product: ") + cublas_.status_string(status));
}

void Product::multiply(const void* weights, std::int64_t rows, std::int64_t columns,
                       int batch) const {
  const float one = 1.0f, zero = 0.0f;
  // cuBLAS is column-major: our row-major [rows, columns] is its [columns, rows].
  check(gemm(cublas_.handle, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(rows), batch,
             static_cast<int>(columns), &one, weights, type_, static_cast<int>(columns),
             input_.data(), type_, static_cast<int>(columns), &zero, output_.data(), type_,
             static_cast<int>(rows), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

}  // namespace reprolab::nf4
