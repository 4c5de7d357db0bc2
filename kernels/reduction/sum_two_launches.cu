// Two launches of the same kernel: the first adds up each block's words, one a thread, the second,
// a single block, all of the blocks' sums, for which each of its threads makes many trips.
//
// Source: kernel 0 of S. Veitner, "Making vector sum really fast", written here; its kernel 1, and
//         two_pass_1 to _4 of its version in Mojo, are of this kind.
// Bound:  the second launch: 4,096 trips for 2^30 words.
// Alone:  make bench KERNEL=sum_two_launches
#include "kernels/definition.hpp"
#include "kernels/reduction/block_sum.cuh"
#include "kernels/reduction/problem.hpp"

namespace reprolab::reduction {
namespace {

constexpr int threads = 512;

__global__ void __launch_bounds__(threads)
    add_blocks(const std::uint32_t* input, std::int64_t n, std::uint32_t* output) {
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  std::uint32_t sum = 0;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < n; i += step) {
    sum += input[i];
  }
  sum = halved<threads>(sum, 1)[0];
  if (threadIdx.x == 0) output[blockIdx.x] = sum;
}

std::int64_t blocks_of(const Problem& problem) { return blocks_over(problem.n, threads); }

cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  auto* const sums = static_cast<std::uint32_t*>(problem.workspace);
  const std::int64_t blocks = blocks_of(problem);
  if (blocks > 0) {
    add_blocks<<<grid_of(blocks), threads, 0, stream>>>(problem.input, problem.n, sums);
  }
  add_blocks<<<1, threads, 0, stream>>>(sums, blocks, problem.output);
  return cudaGetLastError();
}

Support supports(const Problem& problem) {
  if (blocks_of(problem) <= max_blocks) return Support::yes();
  return Support::no("a grid has 2^31 - 1 blocks of 512 words at most");
}

const Register<Problem> registered{{
    .name = "sum_two_launches",
    .lineage = "Veitner, kernel 0",
    .supports = supports,
    .launch = launch,
    .workspace_bytes = [](const Problem& problem) -> std::uint64_t {
      return 4 * blocks_of(problem);
    },
}};

}  // namespace
}  // namespace reprolab::reduction
