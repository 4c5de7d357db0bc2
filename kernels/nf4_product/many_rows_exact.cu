// many_rows, but it multiplies by exactly the 16-bit weights that dequantization writes.
//
// Source: ours.
// Bound:  reads of shared memory up to 64 rows, then tensor cores.
// Alone:  make bench KERNEL=many_rows_exact
#include "kernels/nf4_product/many_rows.cuh"
#include "kernels/nf4_product/readings.hpp"

namespace reprolab::nf4_product {
namespace {

const Register<Problem> registered{{
    .name = "many_rows_exact",
    .lineage = "ours",
    .source_file = "kernels/nf4_product/many_rows_exact.cu",
    .contract = WithinBound{"multiplies by the weights that dequantization writes; adds in fp32",
                            dequantized_weights, true},
    .supports = supports_many_rows<DequantizedWeights>,
    .launch =
        [](const Problem& problem, cudaStream_t stream) {
          return launch_many_rows<DequantizedWeights>(
              problem, many_rows_cut(problem, current_device()), stream);
        },
    .workspace_bytes =
        [](const Problem& problem) {
          return many_rows_workspace(problem, many_rows_cut(problem, current_device()));
        },
}};

}  // namespace
}  // namespace reprolab::nf4_product
