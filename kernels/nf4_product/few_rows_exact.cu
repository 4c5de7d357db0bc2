// few_rows, but it multiplies by exactly the 16-bit weights that dequantization writes, so that
// decoding and a prefill that dequantizes agree about the weights. Every weight is an entry times
// its scale, rounded, in place of one scale per sum: a byte's table entry is twice as long.
//
// Source: ours.
// Bound:  reads of shared memory: two 32-bit words for each byte of codes.
// Alone:  make bench KERNEL=few_rows_exact
#include "kernels/nf4_product/few_rows_launch.cuh"

namespace reprolab::nf4_product {
namespace {

const Register<Problem> registered{{
    .name = "few_rows_exact",
    .lineage = "ours",
    .contract = WithinBound{"multiplies by the weights that dequantization writes; adds in fp32",
                            dequantized_weights, true},
    .supports = supports_few_rows<DequantizedWeights>,
    .launch = launch_few_rows<DequantizedWeights>,
    .workspace_bytes = few_rows_workspace,
    .plan = plan_few_rows<DequantizedWeights>,
}};

}  // namespace
}  // namespace reprolab::nf4_product
