// The library's own transpose: C = 1 * A^T + 0 * B.
//
// Source: cuBLAS, cublasSgeam (of the CUDA toolkit that this is built with).
// Bound:  memory, as far as its kernels go.
// Alone:  make bench KERNEL=cublas_sgeam
#include <cublas_v2.h>

#include <algorithm>
#include <limits>
#include <string>

#include "kernels/registry.hpp"
#include "kernels/transpose/problem.hpp"

namespace reprolab::transpose {
namespace {

/// A handle for the device that is current when it is first asked for; lives as long as the
/// process.
struct Cublas {
  cublasHandle_t handle = nullptr;
  cublasStatus_t created = cublasCreate(&handle);
};

Cublas& cublas() {
  static Cublas instance;
  return instance;
}

Support supports(const Problem& problem) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  if (std::max(problem.in_stride, problem.out_stride) > most) {
    return Support::no("cuBLAS counts strides in 32 bits");
  }
  if (cublas().created == CUBLAS_STATUS_SUCCESS) return Support::yes();
  return Support::no(std::string("cuBLAS: ") + cublasGetStatusString(cublas().created));
}

cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  if (problem.rows == 0 || problem.columns == 0) return cudaSuccess;
  const float one = 1, zero = 0;
  const int rows = static_cast<int>(problem.rows), columns = static_cast<int>(problem.columns);
  const int in_stride = static_cast<int>(problem.in_stride);
  const int out_stride = static_cast<int>(problem.out_stride);
  // Its matrices are column-major: ours, row by row, is to it the transposed one.
  cublasStatus_t status = cublasSetStream(cublas().handle, stream);
  if (status == CUBLAS_STATUS_SUCCESS) {
    status =
        cublasSgeam(cublas().handle, CUBLAS_OP_T, CUBLAS_OP_N, rows, columns, &one, problem.input,
                    in_stride, &zero, problem.output, out_stride, problem.output, out_stride);
  }
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) return error;
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return cudaSuccess;
    case CUBLAS_STATUS_INVALID_VALUE:
      return cudaErrorInvalidValue;
    case CUBLAS_STATUS_ARCH_MISMATCH:
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return cudaErrorNotSupported;
    default:
      return cudaErrorUnknown;
  }
}

const Register<Problem> registered{{
    .name = "cublas_sgeam",
    .lineage = "cuBLAS, cublasSgeam",
    .source_file = "kernels/transpose/cublas_sgeam.cu",
    .contract = {},
    .supports = supports,
    .launch = launch,
    .peer = true,
}};

}  // namespace
}  // namespace reprolab::transpose
