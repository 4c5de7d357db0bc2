// A matmul for M > 16, in one pass over the codes for each 128 rows. Weights are decoded into the
// registers from which wgmma takes its first operand, and are never written to memory. The sum over
// each block of weights is scaled in fp32. many_rows/kernel.cuh has the kernel, its tiling and its
// pipeline.
//
// GPUs:   9.0 with wgmma; 10.0, 10.3 and 11.0 with mma. Others lack TMA or 227 KiB of shared memory
//         for a block: few_rows_99kib multiplies there, 16 rows at a time.
// Source: ours.
// Bound:  loads from shared memory; from M = 128 on tensor cores.
// Alone:  make bench KERNEL=many_rows
#include "kernels/nf4_product/many_rows/launch.cuh"

namespace reprolab::nf4_product {

const Register<Problem> registered{{
    .name = "many_rows",
    .lineage = "ours",
    .contract =
        WithinBound{"rounds the table's entries to 16 bits; adds the products of 64 inputs, "
                    "then these sums times their scales, in fp32",
                    rounded_entries, true},
    .supports = supports_many_rows<ScaledSums>,
    .launch = launch_many_rows<ScaledSums>,
    .workspace_bytes = many_rows_workspace,
    .plan = plan_many_rows<ScaledSums>,
}};

}  // namespace reprolab::nf4_product
