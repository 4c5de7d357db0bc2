#include "harness/programs/replay/product.hpp"

#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cublas_library.hpp"
#include "reference/nf4/nf4.hpp"

namespace reprolab::nf4 {
namespace {

CublasGemmEx gemm = nullptr;

/// Loaded on first use, so that a replay also starts without it.
const CublasHandle& cublas() {
  static const CublasHandle instance({{gemm, "cublasGemmEx"}});
  return instance;
}

void check(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string("matrix product: ") + cublas().status_string(status));
}

}  // namespace

Product::Product(int batch, std::int64_t longest, reference::WeightType type, cudaStream_t stream)
    : type_(type == reference::WeightType::fp16 ? CUDA_R_16F : CUDA_R_16BF) {
  if (!why_not().empty()) return;
  input_ = profiling::DeviceBuffer(2 * static_cast<std::uint64_t>(batch * longest));
  output_ = profiling::DeviceBuffer(input_.bytes());
  check(cublas().set_stream(cublas().handle, stream));
  // Random activations: with constant ones the GPU draws less power, and runs faster, than with
  // real ones.
  std::vector<std::uint16_t> activations(static_cast<std::size_t>(batch * longest));
  reference::normal_weights(2, 0, type, 1.0f, activations);
  profiling::check(
      cudaMemcpy(input_.data(), activations.data(), input_.bytes(), cudaMemcpyHostToDevice),
      "copying activations to the GPU");
}

std::string Product::why_not() {
  return cublas().why_not.empty() ? "" : "cuBLAS: " + cublas().why_not;
}

void Product::multiply(const void* weights, std::int64_t rows, std::int64_t columns,
                       int batch) const {
  const float one = 1.0f, zero = 0.0f;
  // cuBLAS is column-major: our row-major [rows, columns] is its [columns, rows].
  check(gemm(cublas().handle, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(rows), batch,
             static_cast<int>(columns), &one, weights, type_, static_cast<int>(columns),
             input_.data(), type_, static_cast<int>(columns), &zero, output_.data(), type_,
             static_cast<int>(rows), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

}  // namespace reprolab::nf4
