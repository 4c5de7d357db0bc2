#include "kernels/nf4_product/cublas_product.hpp"
#include "kernels/nf4_product/readings.hpp"

namespace reprolab::nf4_product {
namespace {

constexpr std::uint64_t alignment = 256;

std::uint64_t weight_bytes(const Problem& problem) {
  const auto bytes = 2 * static_cast<std::uint64_t>(problem.n * problem.k);
  return (bytes + alignment - 1) / alignment * alignment;
}

/// To dequantize all weights to the start of the workspace; behind them is cuBLAS's part.
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

Kernel<Problem> dequantize_then_cublas(const std::string& nf4_kernel, const std::string& lineage) {
  // Asked for when it is used: the other family may not be registered yet.
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
            auto* const behind = static_cast<std::byte*>(problem.workspace) + weight_bytes(problem);
            return multiply_by_cublas(problem, problem.workspace, behind, stream);
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
