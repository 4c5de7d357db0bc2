// many_rows with weights that are scaled before they are multiplied, in 16 bits. So there is no
// second accumulator for unscaled sums: an M tile of 128 has registers for four warpgroups instead
// of two, and two support an M tile of 256, for which weights are decoded once, a quarter of them
// without the table in shared memory.
//
// Source: ours.
// Bound:  loads from shared memory: codes, the table, and wgmma's operand; at 256 rows tensor
//         cores.
// Alone:  make bench KERNEL=many_rows_rounded
#include "kernels/nf4_product/many_rows/launch.cuh"

namespace reprolab::nf4_product {

const Register<Problem> registered{{
    .name = "many_rows_rounded",
    .lineage = "ours",
    .contract = WithinBound{"rounds the table's entries, the scales and their products to 16 bits; "
                            "adds in fp32",
                            rounded_products, true},
    .supports = supports_many_rows<RoundedProducts>,
    .launch = launch_many_rows<RoundedProducts>,
    .workspace_bytes = many_rows_workspace,
    .plan = plan_many_rows<RoundedProducts>,
}};

}  // namespace reprolab::nf4_product
