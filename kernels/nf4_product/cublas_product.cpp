#include "kernels/nf4_product/cublas_product.hpp"

#include <algorithm>
#include <limits>

#include "kernels/cublas_library.hpp"

namespace reprolab::nf4_product {
namespace {

decltype(&cublasSetMathMode) set_math_mode = nullptr;
decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
CublasGemmEx gemm = nullptr;

/// Loaded on first use, so that programs also start without it.
const CublasHandle& cublas() {
  static const CublasHandle instance = [] {
    CublasHandle made({{set_math_mode, "cublasSetMathMode"},
                       {set_workspace, "cublasSetWorkspace_v2"},
                       {gemm, "cublasGemmEx"}});
    if (made.why_not.empty()) {
      // By default it may add parts of a sum in 16 bits.
      const auto mode = CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
      made.check(set_math_mode(made.handle, static_cast<cublasMath_t>(mode)));
    }
    return made;
  }();
  return instance;
}

constexpr std::uint64_t alignment = 256;

std::uint64_t weight_bytes(const Problem& problem) {
  const auto bytes = 2 * static_cast<std::uint64_t>(problem.n * problem.k);
  return (bytes + alignment - 1) / alignment * alignment;
}

/// All weights are dequantized to the start of the workspace; cuBLAS's workspace comes after them.
nf4::Problem dequantization_of(const Problem& problem) {
  return {.codes = problem.codes,
          .absmax = problem.absmax,
          .nested = problem.nested,
          .table = problem.table,
          .n = problem.n * problem.k,
          .block_size = problem.block_size,
          .output = problem.workspace,
          .output_type = problem.type};
}

}  // namespace

Support supports_cublas(const Problem& problem) {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  if (std::max({problem.m, problem.n, problem.k}) > most) {
    return Support::no("cuBLAS counts rows and columns in 32 bits");
  }
  // With beta = 1 and the bias in the output, cuBLAS rounded a sum of 1024 bf16 products before it
  // added the bias.
  if (problem.bias != nullptr) return Support::no("cuBLAS may round a sum before it adds a bias");
  if (cublas().why_not.empty()) return Support::yes();
  return unsupported("cuBLAS: " + cublas().why_not);
}

cudaError_t multiply_by_cublas(const Problem& problem, const void* weights, void* workspace,
                               cudaStream_t stream) {
  if (problem.m == 0 || problem.n == 0) return cudaSuccess;
  const auto [m, n, k] = std::array{static_cast<int>(problem.m), static_cast<int>(problem.n),
                                    static_cast<int>(problem.k)};
  const cudaDataType type = problem.type == nf4::OutputType::fp16 ? CUDA_R_16F : CUDA_R_16BF;
  const float one = 1, zero = 0;
  const cublasHandle_t handle = cublas().handle;
  cublasStatus_t status = cublas().set_stream(handle, stream);
  if (status == CUBLAS_STATUS_SUCCESS) {  // setting the stream takes the workspace away
    status = set_workspace(handle, workspace, cublas_workspace_bytes);
  }
  if (status == CUBLAS_STATUS_SUCCESS) {
    // cuBLAS is column-major: it sees our row-major matrices as transposed ones.
    status = gemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, n, m, k, &one, weights, type, k, problem.input,
                  type, k, &zero, problem.output, type, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  }
  return launch_error(status);
}

std::vector<std::string> cublas_files() {
  cublas();
  return {file_of(reinterpret_cast<const void*>(gemm))};
}

Kernel<Problem> dequantize_then_cublas(const std::string& nf4_kernel, const std::string& lineage) {
  // Looked up at first use: the other family may not be registered yet.
  const auto dequantize = [nf4_kernel]() -> const Kernel<nf4::Problem>& {
    return kernel_named<nf4::Problem>(nf4_kernel);
  };
  return {
      .name = nf4_kernel + "_then_cublas",
      .lineage = lineage,
      .contract = WithinBound{"multiplies by the weights that dequantization writes; cuBLAS "
                              "adds in fp32, in an order that depends on the number of rows",
                              dequantized_weights},
      .supports =
          [dequantize](const Problem& problem) {
            const Support support = supports_cublas(problem);
            return support.ok ? dequantize().supports(dequantization_of(problem)) : support;
          },
      .launch =
          [dequantize](const Problem& problem, cudaStream_t stream) {
            const auto error = dequantize().launch(dequantization_of(problem), stream);
            if (error != cudaSuccess) return error;
            auto* const cublas_workspace =
                static_cast<std::byte*>(problem.workspace) + weight_bytes(problem);
            return multiply_by_cublas(problem, problem.workspace, cublas_workspace, stream);
          },
      .code_files =
          [dequantize](int capability) {
            const auto& kernel = dequantize();
            auto files = kernel.code_files ? kernel.code_files(capability)
                                           : std::vector<std::string>{kernel.source_file};
            for (const auto& file : cublas_files()) files.push_back(file);
            return files;
          },
      .workspace_bytes =
          [](const Problem& problem) { return weight_bytes(problem) + cublas_workspace_bytes; }};
}

}  // namespace reprolab::nf4_product
