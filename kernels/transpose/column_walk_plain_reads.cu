// column_walk without its request that L2 keep what was read: comparing the two isolates the effect
// of the request.
//
// Source: ours, for the comparison alone.
// Bound:  memory.
// Alone:  make bench KERNEL=column_walk_plain_reads
#include "kernels/access.cuh"
#include "kernels/transpose/problem.hpp"
#include "kernels/transpose/vector_tile.cuh"

namespace reprolab::transpose {

const Register<Problem> registered{{
    .name = "column_walk_plain_reads",
    .lineage = "ours, for comparison with column_walk",
    .supports = supports_float4s,
    .launch = launch_vector_tile<DownColumns<2>, PlainAccess, 64, 64, 256>,
}};

}  // namespace reprolab::transpose
