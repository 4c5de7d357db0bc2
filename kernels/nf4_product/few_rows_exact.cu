// few_rows with exactly the 16-bit weights that dequantization writes, so that decoding uses the
// same weights as a prefill that dequantizes. Every weight is an entry times its scale, rounded,
// and no sum is scaled; a byte's table entry is twice as long.
//
// Source: ours.
// Bound:  loads from shared memory: two 32-bit words for each byte of codes.
// Alone:  make bench KERNEL=few_rows_exact
#include "kernels/nf4_product/few_rows/launch.cuh"

namespace reprolab::nf4_product {

const Register<Problem> registered{{
    .name = "few_rows_exact",
    .lineage = "ours",
    .contract = WithinBound{"multiplies by the weights that dequantization writes; adds in fp32",
                            dequantized_weights, true},
    .supports = supports_few_rows<DequantizedWeights>,
    .launch = launch_few_rows<DequantizedWeights>,
    .workspace_bytes = few_rows_workspace<DequantizedWeights<__half>>,
    .plan = plan_few_rows<DequantizedWeights>,
}};

}  // namespace reprolab::nf4_product
