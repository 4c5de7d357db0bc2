// The tensor memory accelerator loads and stores tiles of 32 x 32; in between, each thread moves
// one element, and a warp's 32 stores to one column of the tile all hit the same bank.
//
// Source: S. Veitner, "Highly efficient matrix transpose in Mojo", naive approach; the same in CUDA
//         in his earlier post.
// Bound:  32-way bank conflicts in shared memory.
// Alone:  make bench KERNEL=tma_naive
#include "kernels/transpose/tma.cuh"

namespace reprolab::transpose {
namespace {

constexpr int threads = tma_tile * tma_tile;

__global__ void __launch_bounds__(threads)
    tma_naive(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out,
              std::uint32_t tile_columns) {
  __shared__ TmaTiles tiles;
  const auto [first_row, first_column] = tma_tile_start(tile_columns);
  tma_load(tiles, in, first_row, first_column);
  const auto [row, column] = single_element(threadIdx.x);
  tiles.out[flat(column, row)] = tiles.in[flat(row, column)];
  tma_store(tiles, out, first_column, first_row);
}

const Register<Problem> registered{{
    .name = "tma_naive",
    .lineage = "Veitner's transpose post, naive approach",
    .supports = supports_tma<tma_naive>,
    .launch = launch_tma<tma_naive, threads, CU_TENSOR_MAP_SWIZZLE_NONE>,
}};

}  // namespace
}  // namespace reprolab::transpose
