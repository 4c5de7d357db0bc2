// few_rows for up to 16 rows: twice the activations for half the inputs of each block, and each
// decoded weight is multiplied by both eights of rows.
//
// Source: ours. Weights as the first operand from registers, and split sums in a fixed order: as
//         Marlin (arXiv 2408.11743) has it for repacked weights.
// Bound:  memory: codes and scales are read once.
// Alone:  make bench KERNEL=few_rows_16
#include "kernels/nf4_product/few_rows_launch.cuh"

namespace reprolab::nf4_product {
namespace {

const Register<Problem> registered{{
    .name = "few_rows_16",
    .lineage = "ours",
    .contract = WithinBound{"rounds the table's entries to 16 bits; adds the products of up to 64 "
                            "inputs, then these sums times their scales, in fp32",
                            rounded_entries, true},
    .supports = supports_few_rows<ScaledSums, 16>,
    .launch = launch_few_rows<ScaledSums, 16>,
    .workspace_bytes = few_rows_workspace<ScaledSums, 16>,
}};

}  // namespace
}  // namespace reprolab::nf4_product
