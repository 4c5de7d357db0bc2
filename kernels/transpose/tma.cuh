// The tensor memory accelerator of compute capability 9.0: a tile from global to shared memory and
// back, started by one thread. PTX ISA, "cp.async.bulk.tensor" and "mbarrier".
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/bulk_copy.cuh"
#include "kernels/transpose/swizzle.hpp"
#include "kernels/transpose/tile_order.hpp"
#include "kernels/transpose/tma_launch.hpp"

namespace reprolab::transpose {

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
