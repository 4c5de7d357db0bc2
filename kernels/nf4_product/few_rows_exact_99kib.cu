// few_rows_exact in 99 KiB of shared memory: few_rows_99kib has the reasons.
//
// Source: ours.
// Bound:  loads from shared memory: two 32-bit words for each byte of codes.
// Alone:  make bench KERNEL=few_rows_exact_99kib
#include "kernels/nf4_product/few_rows/launch.cuh"

namespace reprolab::nf4_product {
namespace {

template <class Out>
using Decode = SmallTable<DequantizedWeights<Out>>;

const Register<Problem> registered{{
    .name = "few_rows_exact_99kib",
    .lineage = "ours",
    .contract = WithinBound{"multiplies by the weights that dequantization writes; adds in fp32",
                            dequantized_weights, true},
    .supports = supports_few_rows_in_slices<Decode>,
    .launch = launch_few_rows<Decode>,
    .workspace_bytes = few_rows_workspace<Decode<__half>>,
    .plan = plan_few_rows<Decode>,
}};

}  // namespace
}  // namespace reprolab::nf4_product
