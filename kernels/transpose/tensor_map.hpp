// The host's half of the tensor memory accelerator: the description of a matrix that it works from.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/registry.hpp"
#include "kernels/transpose/problem.hpp"

namespace reprolab::transpose {

/// Whether the accelerator, the driver and the kernel's compilation are there, and whether the
/// problem's matrices can be described: they consist of aligned groups of 16 bytes, and their rows
/// lie less than 2^40 bytes apart (CUDA Driver API, cuTensorMapEncodeTiled).
Support tma_support(const void* kernel, const Problem& problem);

/// A kernel that goes over a matrix in tiles of `tma_tile` x `tma_tile`; both maps are
/// __grid_constant__.
using TmaKernel = void (*)(CUtensorMap in, CUtensorMap out, std::uint32_t tile_columns);

/// tma_support for one kernel, as its registration wants it.
template <TmaKernel kernel>
Support supports_tma(const Problem& problem) {
  return tma_support(reinterpret_cast<const void*>(kernel), problem);
}

/// Launches a block of `threads` for each tile. cudaErrorNotSupported where the driver has no
/// tensor maps, cudaErrorInvalidValue where it will not describe the problem's matrices.
cudaError_t launch_tma(TmaKernel kernel, int threads, CUtensorMapSwizzle swizzle,
                       const Problem& problem, cudaStream_t stream);

}  // namespace reprolab::transpose
