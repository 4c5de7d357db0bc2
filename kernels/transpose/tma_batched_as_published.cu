// The batched kernel with the indices of the post's Mojo code, taken literally: a thread adds its
// step to the column only inside the swizzle, and rows 4 to 31 of a tile are never read. The post
// checks with a constant matrix, on which the error does not show.
//
// Source: S. Veitner, "Highly efficient matrix transpose in Mojo", batched, and its repository
//         (simveit/efficient_transpose_mojo, transpose_swizzle_batched.mojo).
// Bound:  as tma_batched: it moves the same number of bytes.
// Alone:  make bench KERNEL=tma_batched_as_published
#include "kernels/transpose/tma.cuh"

namespace reprolab::transpose {
namespace {

constexpr int threads = tma_tile * tma_tile / batch;

__global__ void __launch_bounds__(threads)
    tma_batched_as_published(const __grid_constant__ CUtensorMap in,
                             const __grid_constant__ CUtensorMap out, std::uint32_t tile_columns) {
  __shared__ TmaTiles tiles;
  const auto [first_row, first_column] = tma_tile_start(tile_columns);
  tma_load(tiles, in, first_row, first_column);
#pragma unroll
  for (int j = 0; j < batch; ++j) {
    const auto [from, to] = published_move(threadIdx.x, j);
    tiles.out[to] = tiles.in[from];
  }
  tma_store(tiles, out, first_column, first_row);
}

/// Value at the index `place` of the loaded tile in shared memory; zero past the matrix.
float loaded(const Problem& host, Element tile_start, int place) {
  const int row = place / tma_tile;
  const std::int64_t in_row = tile_start.row + row;
  const std::int64_t in_column = tile_start.column + swizzled(row, place % tma_tile);
  if (in_row >= host.rows || in_column >= host.columns) return 0.0F;
  return host.input[in_row * host.in_stride + in_column];
}

void expected_output(const Problem& host, std::int64_t begin, std::int64_t end) {
  // For each place of the stored tile, the place of the loaded tile that ends there (all tiles
  // alike).
  int from[tma_tile * tma_tile] = {};
  for (int thread = 0; thread < threads; ++thread) {
    for (int j = 0; j < batch; ++j) {
      const Move move = published_move(thread, j);
      from[move.to] = move.from;
    }
  }
  for (std::int64_t at = begin; at < end; ++at) {
    const std::int64_t row = at / host.out_stride, column = at % host.out_stride;
    if (column >= host.rows) continue;  // padding between two rows
    const int in_tile_row = static_cast<int>(row % tma_tile);
    const int in_tile_column = static_cast<int>(column % tma_tile);
    const Element start{static_cast<int>(column) - in_tile_column,
                        static_cast<int>(row) - in_tile_row};
    host.output[at] = loaded(host, start, from[flat_swizzled(in_tile_row, in_tile_column)]);
  }
}

const Register<Problem> registered{{
    .name = "tma_batched_as_published",
    .lineage = "Veitner's transpose post, batched, as in its Mojo",
    .contract = DeclaredDeviation{"wrong on non-constant data, as published: of each tile's 32 "
                                  "rows only the first 4 are read"},
    .expected_output = expected_output,
    .supports = supports_tma<tma_batched_as_published>,
    .launch = launch_tma<tma_batched_as_published, threads, CU_TENSOR_MAP_SWIZZLE_128B>,
}};

}  // namespace
}  // namespace reprolab::transpose
