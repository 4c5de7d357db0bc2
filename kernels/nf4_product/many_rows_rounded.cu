// many_rows, but it scales the weights before they are multiplied, in 16 bits. So a sum needs no
// second place for what is not scaled yet: at 128 rows there are registers for four warpgroups, not
// two, and two take 256 rows at once, for which weights are decoded once, a quarter of them without
// the table in shared memory.
//
// Source: ours.
// Bound:  reads of shared memory: codes, the table, and wgmma its operand; at 256 rows tensor
//         cores.
// Alone:  make bench KERNEL=many_rows_rounded
#include "kernels/nf4_product/many_rows_launch.cuh"

namespace reprolab::nf4_product {
namespace {

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

}  // namespace
}  // namespace reprolab::nf4_product
