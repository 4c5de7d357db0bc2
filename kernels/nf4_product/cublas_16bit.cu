// The unquantized baseline: cuBLAS on 16-bit weights that are already in memory. It does not read
// 4-bit weights and needs four times their memory; it shows what fewer bytes gain.
//
// Source: cuBLAS, cublasGemmEx (of the CUDA toolkit that this is built with).
// Bound:  memory for few rows: 16-bit weights read once; tensor cores for many.
// Alone:  make bench KERNEL=cublas_16bit
#include "kernels/cublas_library.hpp"
#include "kernels/nf4_product/cublas_product.hpp"

namespace reprolab::nf4_product {
namespace {

Support supports(const Problem& problem) {
  if (problem.weights == nullptr) return Support::no("needs the weights in 16 bits");
  return supports_cublas(problem);
}

const Register<Problem> registered{[]() -> Kernel<Problem> {
  return {
      .name = "cublas_16bit",
      .lineage = "cuBLAS, cublasGemmEx on 16-bit weights: not a 4-bit kernel",
      .contract =
          WithinBound{"multiplies by the weights that dequantization writes; cuBLAS adds in "
                      "fp32, in an order that depends on the number of rows",
                      dequantized_weights},
      .supports = supports,
      .launch =
          [](const Problem& problem, cudaStream_t stream) {
            return multiply_by_cublas(problem, problem.weights, problem.workspace, stream);
          },
      .origin = {Origin::Kind::peer, cublas_maker()},
      .code_files = [](int) { return cublas_files(); },
      .workspace_bytes = [](const Problem&) { return cublas_workspace_bytes; },
  };
}};

}  // namespace
}  // namespace reprolab::nf4_product
