// The tensor memory accelerator of compute capability 9.0: requirements and launch of its kernels,
// and a tile from global to shared memory and back, started by one thread. PTX ISA,
// "cp.async.bulk.tensor" and "mbarrier".
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/bulk_copy.cuh"
#include "kernels/device.hpp"
#include "kernels/tensor_map.hpp"
#include "kernels/transpose/problem.hpp"
#include "kernels/transpose/tiles.hpp"

namespace reprolab::transpose {

/// Whether the device has the accelerator, the driver supports it, and the problem's matrices can
/// be described.
inline Support tma_support(const Problem& problem) {
  if (compute_capability() < 90) {
    return Support::no("needs the tensor memory accelerator (compute capability 9.0 or newer)");
  }
  if (tensor_map_encoder() == nullptr) return Support::no("needs a driver of CUDA 12.0 or newer");
  // At the end of a row the accelerator stores up to the next multiple of 16 bytes (seen on an
  // H200), and the memory there does not belong to the matrix.
  if (const Support support = supports_float4s(problem); !support.ok) return support;
  constexpr std::int64_t most = (std::int64_t{1} << 40) / sizeof(float);
  if (std::max(problem.in_stride, problem.out_stride) >= most) {
    return Support::no("needs rows less than 2^40 bytes apart");
  }
  return Support::yes();
}

/// The number of tiles and of blocks. 0: there is nothing to launch.
inline std::int64_t tma_tiles(const Problem& problem) {
  return std::int64_t{tiles_over(problem.columns, tma_tile)} * tiles_over(problem.rows, tma_tile);
}

/// Arguments, in this order, of a kernel with one block for each tile of `tma_tile` x `tma_tile`:
/// both maps by value, as __grid_constant__.
struct TmaArguments {
  CUtensorMap in, out;
  std::uint32_t tile_columns = 0;  ///< Columns of the input's tile.

  std::array<void*, 3> pointers() { return {&in, &out, &tile_columns}; }
};

/// Fills the arguments for a problem that has tiles. An error of describe() in tensor_map.hpp.
inline cudaError_t describe(const Problem& problem, CUtensorMapSwizzle swizzle,
                            TmaArguments& arguments) {
  arguments.tile_columns = tiles_over(problem.columns, tma_tile);
  TiledMatrix matrix{.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                     .first = problem.input,
                     .rows = problem.rows,
                     .columns = problem.columns,
                     .stride_bytes = problem.in_stride * std::int64_t{sizeof(float)},
                     .tile_rows = tma_tile,
                     .tile_columns = tma_tile,
                     .swizzle = swizzle};
  const cudaError_t error = reprolab::describe(matrix, arguments.in);
  if (error != cudaSuccess) return error;
  matrix.first = problem.output;
  std::swap(matrix.rows, matrix.columns);
  matrix.stride_bytes = problem.out_stride * std::int64_t{sizeof(float)};
  return reprolab::describe(matrix, arguments.out);
}

using TmaKernel = void (*)(CUtensorMap in, CUtensorMap out, std::uint32_t tile_columns);

/// As tma_support, and the kernel has to be compiled for the accelerator.
template <TmaKernel kernel>
Support supports_tma(const Problem& problem) {
  if (const Support support = tma_support(problem); !support.ok) return support;
  if (is_compiled_for(90, reinterpret_cast<const void*>(kernel))) return Support::yes();
  return Support::no("is not compiled for compute capability 9.0; build with ARCH=90 or newer");
}

/// Launches one block of `threads` threads per tile.
template <TmaKernel kernel, int threads, CUtensorMapSwizzle swizzle>
cudaError_t launch_tma(const Problem& problem, cudaStream_t stream) {
  const std::int64_t tiles = tma_tiles(problem);
  if (tiles == 0) return cudaSuccess;
  TmaArguments arguments;
  const cudaError_t error = describe(problem, swizzle, arguments);
  if (error != cudaSuccess) return error;
  kernel<<<grid_of(tiles), threads, 0, stream>>>(arguments.in, arguments.out,
                                                 arguments.tile_columns);
  return cudaGetLastError();
}

/// Shared memory of a block: the loaded tile and the tile to store. The swizzle repeats every 1024
/// bytes, starting at multiples of 1024.
struct TmaTiles {
  alignas(1024) float in[tma_tile * tma_tile];
  alignas(1024) float out[tma_tile * tma_tile];
  std::uint64_t arrived;
};

inline constexpr int tma_tile_bytes = tma_tile * tma_tile * static_cast<int>(sizeof(float));

/// Loads the tile whose first element is (row, column) into `tiles.in`; elements past the matrix
/// are zero. Called by all threads of a block; the tile has arrived when it returns.
__device__ inline void tma_load(TmaTiles& tiles, const CUtensorMap& map, int row, int column) {
#if __CUDA_ARCH__ >= 900
  const std::uint32_t barrier = shared_address(&tiles.arrived);
  if (threadIdx.x == 0) {
    expect_bytes(barrier, tma_tile_bytes);
    bulk_load_tile(shared_address(tiles.in), &map, row, column, barrier);
  }
  __syncthreads();  // no thread may wait on a barrier that is not initialized
  await_bytes(barrier);
#endif
}

/// Stores `tiles.out` as the tile whose first element is (row, column); elements past the matrix
/// are left out, in whole groups of 16 bytes. Called by all threads of a block when they have
/// written their part of it.
__device__ inline void tma_store(TmaTiles& tiles, const CUtensorMap& map, int row, int column) {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(
            &map),
        "r"(column), "r"(row), "r"(shared_address(tiles.out))
        : "memory");
    finish_bulk_stores();
  }
#endif
}

/// The first element of a block's tile in the input.
__device__ inline Element tma_tile_start(std::uint32_t tile_columns) {
  const Tile tile = AcrossRows::tile(blockIdx.x, 0, tile_columns);
  return {static_cast<int>(tile.row) * tma_tile, static_cast<int>(tile.column) * tma_tile};
}

}  // namespace reprolab::transpose
