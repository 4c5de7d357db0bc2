#include "kernels/nf4_product/cublas_product.hpp"

#include <algorithm>
#include <limits>

#include "common/cublas_library.hpp"

namespace reprolab::nf4_product {
namespace {

/// cuBLAS, loaded on first use, so that programs also start without it. Lives as long as the
/// process.
struct Functions {
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasGetStatusString) status_string = nullptr;
  decltype(&cublasSetMathMode) set_math_mode = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
  // Type written out, because the header overloads the function.
  cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                         const void*, const void*, cudaDataType, int, const void*, cudaDataType,
                         int, const void*, void*, cudaDataType, int, cublasComputeType_t,
                         cublasGemmAlgo_t) = nullptr;
  std::string why_not;  ///< Empty if all of the above could be loaded.

  Functions() {
    const auto library = open_cublas(&why_not);
    if (!library) return;
    const std::string missing = library->bind({{create, "cublasCreate_v2"},
                                               {status_string, "cublasGetStatusString"},
                                               {set_math_mode, "cublasSetMathMode"},
                                               {set_stream, "cublasSetStream_v2"},
                                               {set_workspace, "cublasSetWorkspace_v2"},
                                               {gemm, "cublasGemmEx"}});
    if (!missing.empty()) why_not = "the library lacks " + missing;
  }
};

const Functions& functions() {
  static const Functions instance;
  return instance;
}

/// For the device that is current at first use.
struct Handle {
  cublasHandle_t handle = nullptr;
  std::string why_not = functions().why_not;  ///< Empty if there is one.

  Handle() {
    if (!why_not.empty()) return;
    cublasStatus_t status = functions().create(&handle);
    if (status == CUBLAS_STATUS_SUCCESS) {
      // By default it may add parts of a sum in 16 bits.
      const auto mode = CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
      status = functions().set_math_mode(handle, static_cast<cublasMath_t>(mode));
    }
    if (status != CUBLAS_STATUS_SUCCESS) why_not = functions().status_string(status);
  }
};

const Handle& cublas() {
  static const Handle instance;
  return instance;
}

}  // namespace

Support supports_cublas(const Problem& problem) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  if (std::max({problem.m, problem.n, problem.k}) > most) {
    return Support::no("cuBLAS counts rows and columns in 32 bits");
  }
  // Asked to add to an output that holds the bias, it rounded a sum of 1024 bf16 products first.
  if (problem.bias != nullptr) return Support::no("cuBLAS may round a sum before it adds a bias");
  if (cublas().why_not.empty()) return Support::yes();
  return Support::no("cuBLAS: " + cublas().why_not);
}

cudaError_t multiply_by_cublas(const Problem& problem, const void* weights, void* workspace,
                               cudaStream_t stream) {
  if (problem.m == 0 || problem.n == 0) return cudaSuccess;
  const auto [m, n, k] = std::array{static_cast<int>(problem.m), static_cast<int>(problem.n),
                                    static_cast<int>(problem.k)};
  const cudaDataType type = problem.type == nf4::OutputType::fp16 ? CUDA_R_16F : CUDA_R_16BF;
  const float one = 1, zero = 0;
  const Functions& library = functions();
  const cublasHandle_t handle = cublas().handle;
  cublasStatus_t status = library.set_stream(handle, stream);
  if (status == CUBLAS_STATUS_SUCCESS) {  // setting the stream takes the workspace away
    status = library.set_workspace(handle, workspace, cublas_workspace_bytes);
  }
  if (status == CUBLAS_STATUS_SUCCESS) {
    // cuBLAS is column-major: it sees our row-major matrices as transposed ones.
    status = library.gemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, n, m, k, &one, weights, type, k,
                          problem.input, type, k, &zero, problem.output, type, n,
                          CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  }
  return launch_error(status);
}

std::vector<std::string> cublas_files() {
  return {file_of(reinterpret_cast<const void*>(functions().gemm))};
}

}  // namespace reprolab::nf4_product
