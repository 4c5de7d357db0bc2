// A warp takes a quantization block, one byte per lane: lane 0 computes the block's scale and hands
// it to the others with a shuffle.
//
// Source: D. Robertson's post, "warp per block": 256 threads, blocks of 64 weights, packed stores.
//         Slower than tiled_packed on its T4 (4.51 s), faster on its L4.
// Bound:  latency: for one 128-byte store, a warp waits for its scale, then for the shuffle.
// Alone:  make bench KERNEL=warp_per_block
#include "kernels/nf4/byte_walk.cuh"

namespace reprolab::nf4 {
namespace {

constexpr int threads = 256, warps = threads / 32;

template <class Index, class ScaleReader, class Out>
__global__ void __launch_bounds__(threads)
    warp_per_block(const std::uint8_t* __restrict__ codes, const ScaleReader scales,
                   Out* __restrict__ output, const Index n) {
  __shared__ float table[16];
  if (threadIdx.x < 16) table[threadIdx.x] = constant_table.entry[threadIdx.x];
  __syncthreads();

  const unsigned lane = threadIdx.x % 32;
  const Index block = static_cast<Index>(blockIdx.x) * warps + threadIdx.x / 32;
  const Index begin = block << scales.shift;  // the first weight
  if (begin >= n) return;
  float scale = 0;
  if (lane == 0) scale = scales.block_scale(block);
  scale = __shfl_sync(0xffffffffu, scale, 0);

  // One iteration for blocks of 32 or 64 weights, more for larger ones, which the post does not
  // have.
  const Index weights = min(n - begin, Index{1} << scales.shift);
#pragma unroll 1
  for (Index i = lane; i < weights / 2; i += 32) {
    const Index byte = begin / 2 + i;
    const std::uint8_t packed_codes = codes[byte];
    PackedStore::pair(output, byte, scaled(table[first_code(packed_codes)], scale),
                      scaled(table[second_code(packed_codes)], scale));
  }
  if (weights % 2 == 1 && lane == 0) {  // the last byte of an odd length holds one weight
    output[n - 1] = round_to<Out>(scaled(table[first_code(codes[n / 2])], scale));
  }
}

cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  const std::int64_t tiles = blocks_over(problem.n, warps * problem.block_size);
  if (tiles == 0) return cudaSuccess;
  return with_problem_types(problem, [&]<class Index, class ScaleReader, class Out>() {
    warp_per_block<<<grid_of(tiles), threads, 0, stream>>>(problem.codes, ScaleReader(problem),
                                                           static_cast<Out*>(problem.output),
                                                           static_cast<Index>(problem.n));
    return cudaGetLastError();
  });
}

const Register<Problem> registered{{
    .name = "warp_per_block",
    .lineage = "D. Robertson's post: a warp per block of 64",
    .supports = supports_packed_stores,
    .launch = launch,
}};

}  // namespace
}  // namespace reprolab::nf4
