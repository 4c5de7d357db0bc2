// As tma_swizzle, but each thread moves eight elements of a row, so that a block has 128 threads
// instead of 1024.
//
// Source: S. Veitner's earlier post, transpose_swizzle_batched in CUDA, whose indices are right;
//         tma_batched_as_published uses the indices of the post in Mojo.
// Bound:  memory, and latency: load, exchange and store of a tile follow one another.
// Alone:  make bench KERNEL=tma_batched
#include "kernels/transpose/tma.cuh"

namespace reprolab::transpose {
namespace {

constexpr int threads = tma_tile * tma_tile / batch;

__global__ void __launch_bounds__(threads)
    tma_batched(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out,
                std::uint32_t tile_columns) {
  __shared__ TmaTiles tiles;
  const auto [first_row, first_column] = tma_tile_start(tile_columns);
  tma_load(tiles, in, first_row, first_column);
#pragma unroll
  for (int j = 0; j < batch; ++j) {
    const auto [row, column] = batched_element(threadIdx.x, j);
    tiles.out[flat_swizzled(column, row)] = tiles.in[flat_swizzled(row, column)];
  }
  tma_store(tiles, out, first_column, first_row);
}

const Register<Problem> registered{{
    .name = "tma_batched",
    .lineage = "Veitner's transpose post, batched, as in his CUDA",
    .supports = supports_tma<tma_batched>,
    .launch = launch_tma<tma_batched, threads, CU_TENSOR_MAP_SWIZZLE_128B>,
}};

}  // namespace
}  // namespace reprolab::transpose
