// A tile goes through shared memory, with 16-byte accesses everywhere. Each thread transposes
// blocks of 4 x 4 elements in its registers, so all accesses to shared memory are float4s: 4 are
// stored instead of 16 single elements, and there are no bank conflicts (see `chunk_of`).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/definition.hpp"
#include "kernels/transpose/problem.hpp"
#include "kernels/transpose/tiles.hpp"

namespace reprolab::transpose {

template <class Order, class Access, int tile_rows, int tile_columns, int threads>
__global__ void __launch_bounds__(threads) vector_tile(Problem problem) {
  constexpr int down = tile_rows / 4, across = tile_columns / 4;  // blocks of 4 x 4 in a tile
  constexpr int blocks = down * across / threads;                 // per thread
  static_assert(blocks * threads == down * across && down >= 4 && (down & (down - 1)) == 0);
  __shared__ float4 transposed[tile_columns * down];

  const Tile tile = Order::tile(blockIdx.x, tiles_over(problem.rows, tile_rows),
                                tiles_over(problem.columns, tile_columns));
  const std::int64_t first_row = std::int64_t{tile.row} * tile_rows;
  const std::int64_t first_column = std::int64_t{tile.column} * tile_columns;
  const Access access;

  float4 block[blocks][4];  // all loads come before the first use, so all are in flight at once
#pragma unroll
  for (int i = 0; i < blocks; ++i) {
    const int at = threadIdx.x + i * threads;
    const std::int64_t row = first_row + at / across * 4, column = first_column + at % across * 4;
    if (row >= problem.rows || column >= problem.columns) continue;
    const float* const from = problem.input + row * problem.in_stride + column;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      block[i][k] = access.load(reinterpret_cast<const float4*>(from + k * problem.in_stride));
    }
  }
#pragma unroll
  for (int i = 0; i < blocks; ++i) {
    const int at = threadIdx.x + i * threads, chunk = at / across, row = at % across * 4;
    const float4 a = block[i][0], b = block[i][1], c = block[i][2], d = block[i][3];
    transposed[chunk_of(row + 0, chunk, down)] = make_float4(a.x, b.x, c.x, d.x);
    transposed[chunk_of(row + 1, chunk, down)] = make_float4(a.y, b.y, c.y, d.y);
    transposed[chunk_of(row + 2, chunk, down)] = make_float4(a.z, b.z, c.z, d.z);
    transposed[chunk_of(row + 3, chunk, down)] = make_float4(a.w, b.w, c.w, d.w);
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 4 * blocks; ++i) {
    const int at = threadIdx.x + i * threads, chunk = at % down, row = at / down;
    const std::int64_t out_row = first_column + row, out_column = first_row + chunk * 4;
    if (out_row >= problem.columns || out_column >= problem.rows) continue;
    float* const to = problem.output + out_row * problem.out_stride + out_column;
    access.store(reinterpret_cast<float4*>(to), transposed[chunk_of(row, chunk, down)]);
  }
}

/// The problem must be `moves_in_float4s` (support.hpp). `unused_bytes` of shared memory per block
/// limit how many blocks fit on a multiprocessor.
template <class Order, class Access, int tile_rows, int tile_columns, int threads,
          int unused_bytes = 0>
cudaError_t launch_vector_tile(const Problem& problem, cudaStream_t stream) {
  const std::int64_t tiles =
      std::int64_t{tiles_over(problem.rows, tile_rows)} * tiles_over(problem.columns, tile_columns);
  if (tiles == 0) return cudaSuccess;
  vector_tile<Order, Access, tile_rows, tile_columns, threads>
      <<<grid_of(tiles), threads, unused_bytes, stream>>>(problem);
  return cudaGetLastError();
}

}  // namespace reprolab::transpose
