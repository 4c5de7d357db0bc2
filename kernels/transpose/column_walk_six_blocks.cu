// column_walk_plain_reads with six blocks on a multiprocessor instead of eight. column_walk also
// has six, because its request to L2 takes registers: comparing the three isolates the effect of
// the number of blocks.
//
// Source: ours, for the comparison alone.
// Bound:  memory.
// Alone:  make bench KERNEL=column_walk_six_blocks
#include "kernels/access.cuh"
#include "kernels/transpose/problem.hpp"
#include "kernels/transpose/vector_tile.cuh"

namespace reprolab::transpose {
namespace {

/// Shared memory that a block asks for and does not use: with its 16 KiB, six blocks fit into the
/// 228 KiB of a multiprocessor of compute capability 9.0.
constexpr int unused_bytes = 17 << 10;

const Register<Problem> registered{{
    .name = "column_walk_six_blocks",
    .lineage = "ours, for comparison with column_walk",
    .supports = supports_float4s,
    .launch = launch_vector_tile<DownColumns<2>, PlainAccess, 64, 64, 256, unused_bytes>,
}};

}  // namespace
}  // namespace reprolab::transpose
