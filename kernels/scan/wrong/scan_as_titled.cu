// Wrong as published: offered as the prefix sum that its title names, it restarts every 512 words.
// Its array in shared memory has a word for each of four warps, and 32 lanes load and store one.
//
// Source: kernel 4 of S. Veitner, "Making prefix sum really fast", written here.
#include "kernels/definition.hpp"
#include "kernels/scan/problem.hpp"

namespace reprolab::scan {
namespace {

constexpr int threads = 128, words = 4;

/// The sum of the lanes of a warp before this one.
__device__ std::uint32_t before_in_warp(std::uint32_t own) {
  std::uint32_t sum = own;
  for (int offset = 1; offset < 32; offset *= 2) {
    const std::uint32_t other = __shfl_up_sync(0xffffffff, sum, offset);
    if (threadIdx.x % 32 >= offset) sum += other;
  }
  return sum - own;
}

__global__ void scan_as_titled(const Problem problem) {
  __shared__ std::uint32_t sums[threads / 32];
  const std::int64_t first = (std::int64_t{blockIdx.x} * threads + threadIdx.x) * words;
  const std::int64_t n = problem.segments * problem.segment;
  std::uint32_t sum[words] = {};
  for (int j = 0; j < words; ++j) {
    sum[j] = (first + j < n ? problem.input[first + j] : 0) + (j > 0 ? sum[j - 1] : 0);
  }
  const std::uint32_t own = sum[words - 1], before = before_in_warp(own);
  if (threadIdx.x % 32 == 31) sums[threadIdx.x / 32] = before + own;
  __syncthreads();
  if (threadIdx.x < 32) sums[threadIdx.x] = before_in_warp(sums[threadIdx.x]);
  __syncthreads();
  for (int j = 0; j < words && first + j < n; ++j) {
    problem.output[first + j] = before + sums[threadIdx.x / 32] + sum[j];
  }
}

cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  const std::int64_t blocks = blocks_over(problem.segments * problem.segment, threads * words);
  scan_as_titled<<<grid_of(blocks), threads, 0, stream>>>(problem);
  return cudaGetLastError();
}

const Register<Problem> registered{{
    .name = "scan_as_titled",
    .lineage = "Veitner, kernel 4",
    .supports = [](const Problem&) { return Support::yes(); },
    .launch = launch,
}};

}  // namespace
}  // namespace reprolab::scan
