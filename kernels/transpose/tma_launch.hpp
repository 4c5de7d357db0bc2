// Requirements of the kernels of the tensor memory accelerator, and their launch.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

#include "kernels/definition.hpp"
#include "kernels/device.hpp"
#include "kernels/transpose/problem.hpp"

namespace reprolab::transpose {

/// Whether the device has the accelerator, the driver supports it, and the problem's matrices can
/// be described: they consist of aligned groups of 16 bytes, and their rows are less than 2^40
/// bytes apart (CUDA Driver API, cuTensorMapEncodeTiled).
Support tma_support(const Problem& problem);

/// Arguments, in this order, of a kernel with one block for each tile of `tma_tile` x `tma_tile`:
/// both maps by value, as __grid_constant__.
struct TmaArguments {
  CUtensorMap in, out;
  std::uint32_t tile_columns = 0;  ///< Columns of the input's tile.

  std::array<void*, 3> pointers() { return {&in, &out, &tile_columns}; }
};

/// The number of tiles and of blocks. 0: there is nothing to launch.
std::int64_t tma_tiles(const Problem& problem);

/// Fills the arguments for a problem that has tiles. Returns cudaErrorNotSupported if the driver
/// has no tensor maps, and cudaErrorInvalidValue if it cannot describe the problem's matrices.
cudaError_t describe(const Problem& problem, CUtensorMapSwizzle swizzle, TmaArguments& arguments);

using TmaKernel = void (*)(CUtensorMap in, CUtensorMap out, std::uint32_t tile_columns);

/// Whether a kernel can run the problem, in the form that its registration needs: as tma_support,
/// and it has to be compiled for the accelerator.
template <TmaKernel kernel>
Support supports_tma(const Problem& problem) {
  if (const Support support = tma_support(problem); !support.ok) return support;
  if (is_compiled_for(90, reinterpret_cast<const void*>(kernel))) return Support::yes();
  return Support::no("is not compiled for compute capability 9.0; build with ARCH=90 or newer");
}

/// Launches one block of `threads` threads per tile. Returns an error of `describe`, or of the
/// launch.
cudaError_t launch_tma(TmaKernel kernel, int threads, CUtensorMapSwizzle swizzle,
                       const Problem& problem, cudaStream_t stream);

/// The same, in the form that a registration needs.
template <TmaKernel kernel, int threads, CUtensorMapSwizzle swizzle>
cudaError_t launch_tma(const Problem& problem, cudaStream_t stream) {
  return launch_tma(kernel, threads, swizzle, problem, stream);
}

}  // namespace reprolab::transpose
