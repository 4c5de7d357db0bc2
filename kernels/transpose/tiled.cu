// Tiles of 64 x 64 go through shared memory, 16 bytes at a time; blocks take the tiles row by row.
//
// Source: the idea of Ruetsch and Micikevicius, "Optimizing Matrix Transpose in CUDA" (NVIDIA,
//         2009): a tile in shared memory, here with float4 accesses, without the accelerator.
// Bound:  memory: neighbouring blocks write to addresses that are 64 rows of the output apart.
// Alone:  make bench KERNEL=tiled
#include "kernels/access.cuh"
#include "kernels/transpose/problem.hpp"
#include "kernels/transpose/vector_tile.cuh"

namespace reprolab::transpose {

const Register<Problem> registered{{
    .name = "tiled",
    .lineage = "a shared-memory tile, as NVIDIA 2009, with float4",
    .supports = supports_float4s,
    .launch = launch_vector_tile<AcrossRows, PlainAccess, 64, 64, 256>,
}};

}  // namespace reprolab::transpose
