// many_rows with exactly the 16-bit weights that dequantization writes.
//
// Source: ours.
// Bound:  loads from shared memory up to M = 64, then tensor cores.
// Alone:  make bench KERNEL=many_rows_exact
#include "kernels/nf4_product/many_rows/launch.cuh"

namespace reprolab::nf4_product {

const Register<Problem> registered{{
    .name = "many_rows_exact",
    .lineage = "ours",
    .contract = WithinBound{"multiplies by the weights that dequantization writes; adds in fp32",
                            dequantized_weights, true},
    .supports = supports_many_rows<DequantizedWeights>,
    .launch = launch_many_rows<DequantizedWeights>,
    .workspace_bytes = many_rows_workspace,
    .plan = plan_many_rows<DequantizedWeights>,
}};

}  // namespace reprolab::nf4_product
