// The transpose of NVIDIA's library: C = 1 * A^T + 0 * B.
//
// Source: cuBLAS, cublasSgeam (of the CUDA toolkit that this is built with).
// Bound:  memory, as far as the library's kernels reach that limit.
// Alone:  make bench KERNEL=cublas_sgeam
#include <algorithm>
#include <limits>
#include <string>

#include "kernels/cublas_library.hpp"
#include "kernels/registry.hpp"
#include "kernels/transpose/problem.hpp"

namespace reprolab::transpose {
namespace {

decltype(&cublasSgeam) sgeam = nullptr;

/// Loaded on first use, so that programs also start without it.
const CublasHandle& cublas() {
  static const CublasHandle instance({{sgeam, "cublasSgeam"}});
  return instance;
}

Support supports(const Problem& problem) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  if (std::max(problem.in_stride, problem.out_stride) > most) {
    return Support::no("cuBLAS counts strides in 32 bits");
  }
  if (cublas().why_not.empty()) return Support::yes();
  return unsupported("cuBLAS: " + cublas().why_not);
}

cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  if (problem.rows == 0 || problem.columns == 0) return cudaSuccess;
  const float one = 1, zero = 0;
  const int rows = static_cast<int>(problem.rows), columns = static_cast<int>(problem.columns);
  const int in_stride = static_cast<int>(problem.in_stride);
  const int out_stride = static_cast<int>(problem.out_stride);
  // cuBLAS is column-major: it sees our row-major matrix as the transposed one.
  cublasStatus_t status = cublas().set_stream(cublas().handle, stream);
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = sgeam(cublas().handle, CUBLAS_OP_T, CUBLAS_OP_N, rows, columns, &one, problem.input,
                   in_stride, &zero, problem.output, out_stride, problem.output, out_stride);
  }
  return launch_error(status);
}

const Register<Problem> registered{[]() -> Kernel<Problem> {
  return {
      .name = "cublas_sgeam",
      .lineage = "cuBLAS, cublasSgeam",
      .supports = supports,
      .launch = launch,
      .origin = {Origin::Kind::peer, cublas_maker()},
      .code_files = [](int) -> std::vector<std::string> {
        cublas();
        return {file_of(reinterpret_cast<const void*>(sgeam))};
      },
  };
}};

}  // namespace
}  // namespace reprolab::transpose
