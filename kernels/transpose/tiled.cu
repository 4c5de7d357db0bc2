// A tile of 64 x 64 through shared memory, 16 bytes at a time, row of tiles by row of tiles.
//
// Source: the idea of Ruetsch and Micikevicius, "Optimizing Matrix Transpose in CUDA" (NVIDIA,
//         2009): a tile in shared memory, here with float4 accesses; no accelerator.
// Bound:  memory: neighbouring blocks write addresses that lie a whole band of rows apart.
// Alone:  make bench KERNEL=tiled
#include "kernels/transpose/access.cuh"
#include "kernels/transpose/support.hpp"
#include "kernels/transpose/vector_tile.cuh"

namespace reprolab::transpose {
namespace {

const Register<Problem> registered{{
    .name = "tiled",
    .lineage = "a shared-memory tile, as NVIDIA 2009, with float4",
    .source_file = "kernels/transpose/tiled.cu",
    .contract = {},
    .supports = supports_float4s,
    .launch = launch_vector_tile<AcrossRows, PlainAccess, 64, 64, 256>,
}};

}  // namespace
}  // namespace reprolab::transpose
