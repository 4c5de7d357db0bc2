// few_rows_16, but it multiplies by exactly the 16-bit weights that dequantization writes, as
// few_rows_exact does.
//
// Source: ours.
// Bound:  reads of shared memory: two 32-bit words for each byte of codes.
// Alone:  make bench KERNEL=few_rows_16_exact
#include "kernels/nf4_product/few_rows_launch.cuh"

namespace reprolab::nf4_product {
namespace {

const Register<Problem> registered{{
    .name = "few_rows_16_exact",
    .lineage = "ours",
    .contract = WithinBound{"multiplies by the weights that dequantization writes; adds in fp32",
                            dequantized_weights, true},
    .supports = supports_few_rows<DequantizedWeights, 16>,
    .launch = launch_few_rows<DequantizedWeights, 16>,
    .workspace_bytes = few_rows_workspace<DequantizedWeights, 16>,
}};

}  // namespace
}  // namespace reprolab::nf4_product
