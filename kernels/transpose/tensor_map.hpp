// The host side of the tensor memory accelerator: descriptions of the matrices that it works on.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/registry.hpp"
#include "kernels/transpose/problem.hpp"

namespace reprolab::transpose {

/// Whether the device has the accelerator, the driver supports it and the kernel is compiled for
/// it, and whether the problem's matrices can be described: they consist of aligned groups of 16
/// bytes, and their rows are less than 2^40 bytes apart (CUDA Driver API, cuTensorMapEncodeTiled).
Support tma_support(const void* kernel, const Problem& problem);

/// A kernel that works on a matrix in `tma_tile` x `tma_tile` tiles; both maps are
/// __grid_constant__.
using TmaKernel = void (*)(CUtensorMap in, CUtensorMap out, std::uint32_t tile_columns);

/// tma_support for one kernel, in the form that its registration needs.
template <TmaKernel kernel>
Support supports_tma(const Problem& problem) {
  return tma_support(reinterpret_cast<const void*>(kernel), problem);
}

/// Launches one block of `threads` threads per tile. Returns cudaErrorNotSupported if the driver
/// has no tensor maps, and cudaErrorInvalidValue if it cannot describe the problem's matrices.
cudaError_t launch_tma(TmaKernel kernel, int threads, CUtensorMapSwizzle swizzle,
                       const Problem& problem, cudaStream_t stream);

}  // namespace reprolab::transpose
