// few_rows in 99 KiB of shared memory, the maximum of a block on compute capability 8.6, 8.9 and
// 12.0. The table has half the size, and a stage has one N tile for each team of warps
// (few_rows/stages.cuh); the weights, and the sums over a block of weights, are those of
// few_rows. More than 16 rows are multiplied 16 at a time, because many_rows needs wgmma or 227
// KiB. On GPUs with more shared memory it still uses 99 KiB, to be compared there.
//
// Source: ours.
// Bound:  memory: codes and scales are read once.
// Alone:  make bench KERNEL=few_rows_99kib
#include "kernels/nf4_product/few_rows/launch.cuh"

namespace reprolab::nf4_product {
namespace {

template <class Out>
using Decode = SmallTable<ScaledSums<Out>>;

const Register<Problem> registered{{
    .name = "few_rows_99kib",
    .lineage = "ours",
    .contract = WithinBound{"rounds the table's entries to 16 bits; adds the products of up to 64 "
                            "inputs, then these sums times their scales, in fp32",
                            rounded_entries, true},
    .supports = supports_few_rows_in_slices<Decode>,
    .launch = launch_few_rows<Decode>,
    .workspace_bytes = few_rows_workspace<Decode<__half>>,
    .plan = plan_few_rows<Decode>,
}};

}  // namespace
}  // namespace reprolab::nf4_product
