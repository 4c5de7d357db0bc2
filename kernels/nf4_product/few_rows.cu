// A matmul for the few rows of decoding, in one pass over the codes, which stay as bitsandbytes
// laid them out. Tensor cores multiply the table's entries, rounded to 16 bits; the sum over each
// block of weights is scaled in fp32. few_rows/kernel.cuh has the kernel, its tiling and its
// pipeline.
//
// Source: ours. Weights as the first operand from registers, and a split-K reduction in a fixed
//         order: as Marlin (arXiv 2408.11743) has it for repacked weights.
// Bound:  memory: codes and scales are read once.
// Alone:  make bench KERNEL=few_rows
#include "kernels/nf4_product/few_rows/launch.cuh"

namespace reprolab::nf4_product {

const Register<Problem> registered{{
    .name = "few_rows",
    .lineage = "ours",
    .contract = WithinBound{"rounds the table's entries to 16 bits; adds the products of up to 64 "
                            "inputs, then these sums times their scales, in fp32",
                            rounded_entries, true},
    .supports = supports_few_rows<ScaledSums>,
    .launch = launch_few_rows<ScaledSums>,
    .workspace_bytes = few_rows_workspace<ScaledSums<__half>>,
    .plan = plan_few_rows<ScaledSums>,
}};

}  // namespace reprolab::nf4_product
