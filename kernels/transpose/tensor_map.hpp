// The host's half of the tensor memory accelerator: the description of a matrix that it works from.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/transpose/problem.hpp"

namespace reprolab::transpose {

/// A kernel that goes over a matrix in tiles of `tma_tile` x `tma_tile`; both maps are
/// __grid_constant__.
using TmaKernel = void (*)(CUtensorMap in, CUtensorMap out, std::uint32_t tile_columns);

/// Launches a block of `threads` for each tile. cudaErrorNotSupported where the driver has no
/// tensor maps, cudaErrorInvalidValue where it will not describe the problem's matrices.
cudaError_t launch_tma(TmaKernel kernel, int threads, CUtensorMapSwizzle swizzle,
                       const Problem& problem, cudaStream_t stream);

}  // namespace reprolab::transpose
