// Transpose kernels compiled from another language, registered like any other kernel.
#pragma once

#include "kernels/ptx_kernel.hpp"
#include "kernels/transpose/tma_launch.hpp"

namespace reprolab::transpose {

/// A kernel in PTX, with the variant "fp32". It takes what TmaArguments holds, the maps as 128-byte
/// parameters. Block b of its grid transposes the tile that tma_tile_start (tma.cuh) gives it.
struct PtxKernel : reprolab::PtxKernel {
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;  ///< Swizzle of both maps.
};

/// Registers the kernel, with the contract of its counterpart, which has the same tiles and indices
/// and must be registered. Its PTX is loaded by the first call of `supports`.
void add_ptx_kernel(const PtxKernel& kernel);

}  // namespace reprolab::transpose
