// As tma_naive, but the accelerator spreads the 16-byte chunks of the tile's rows over the banks
// (128-byte swizzle), so that a warp's stores to one column hit eight banks instead of one.
//
// Source: S. Veitner, "Highly efficient matrix transpose in Mojo", swizzling; the same in CUDA in
//         his earlier post.
// Bound:  shared memory and instruction issue: 4-way bank conflicts remain, and each thread moves
//         one element.
// Alone:  make bench KERNEL=tma_swizzle
#include "kernels/transpose/tma.cuh"

namespace reprolab::transpose {
namespace {

constexpr int threads = tma_tile * tma_tile;

__global__ void __launch_bounds__(threads)
    tma_swizzle(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out,
                std::uint32_t tile_columns) {
  __shared__ TmaTiles tiles;
  const auto [first_row, first_column] = tma_tile_start(tile_columns);
  tma_load(tiles, in, first_row, first_column);
  const auto [row, column] = single_element(threadIdx.x);
  tiles.out[flat_swizzled(column, row)] = tiles.in[flat_swizzled(row, column)];
  tma_store(tiles, out, first_column, first_row);
}

const Register<Problem> registered{{
    .name = "tma_swizzle",
    .lineage = "Veitner's transpose post, swizzling",
    .supports = supports_tma<tma_swizzle>,
    .launch = launch_tma<tma_swizzle, threads, CU_TENSOR_MAP_SWIZZLE_128B>,
}};

}  // namespace
}  // namespace reprolab::transpose
