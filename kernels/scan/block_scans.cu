// Prefix sums that restart with each block of threads, which scans a segment of 256 or 512 words.
//
// Source: kernels 0 to 4 of S. Veitner, "Making prefix sum really fast", written here: kernels 2
//         and 3 have segments of 256 there, the others of 512. Kernels 3 and 4 reach past their
//         array in shared memory there (wrong/scan_as_titled.cu).
// Bound:  barriers; with four words a thread, memory.
// Alone:  make bench KERNEL=scan_four_each
#include "kernels/definition.hpp"
#include "kernels/scan/problem.hpp"

namespace reprolab::scan {
namespace {

/// Rounds of additions on the output itself; `segment` threads, one word each, as in the next two.
template <int segment>
struct InGlobal {
  static constexpr int threads = segment;
  __device__ static void scan(const std::uint32_t* input, std::uint32_t* output) {
    *output = *input;
    __syncthreads();
#pragma unroll
    for (int offset = 1; offset < segment; offset *= 2) {
      const std::uint32_t other = threadIdx.x >= offset ? output[-offset] : 0;
      __syncthreads();
      if (threadIdx.x >= offset) *output += other;
      __syncthreads();
    }
  }
};

/// The same rounds in shared memory.
template <int segment>
struct InShared {
  static constexpr int threads = segment;
  __device__ static void scan(const std::uint32_t* input, std::uint32_t* output) {
    __shared__ std::uint32_t sums[segment];
    sums[threadIdx.x] = *input;
    __syncthreads();
#pragma unroll
    for (int offset = 1; offset < segment; offset *= 2) {
      const std::uint32_t other = threadIdx.x >= offset ? sums[threadIdx.x - offset] : 0;
      __syncthreads();
      sums[threadIdx.x] += other;
      __syncthreads();
    }
    *output = sums[threadIdx.x];
  }
};

/// From one buffer to the other, with one barrier a round.
template <int segment>
struct TwoBuffers {
  static constexpr int threads = segment;
  __device__ static void scan(const std::uint32_t* input, std::uint32_t* output) {
    __shared__ std::uint32_t buffers[2][segment];
    std::uint32_t sum = *input;
    int round = 0;
#pragma unroll
    for (int offset = 1; offset < segment; offset *= 2) {
      std::uint32_t* const sums = buffers[round++ % 2];
      sums[threadIdx.x] = sum;
      __syncthreads();
      if (threadIdx.x >= offset) sum += sums[threadIdx.x - offset];
    }
    *output = sum;
  }
};

/// The sum of the lanes of a warp up to and with this one.
__device__ std::uint32_t scan_warp(std::uint32_t own) {
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const std::uint32_t other = __shfl_up_sync(0xffffffff, own, offset);
    if (threadIdx.x % 32 >= offset) own += other;
  }
  return own;
}

/// `words` in a row for each thread, then warps by shuffles, then the sums of warps by one of them.
template <int segment, int words>
struct ByWarps {
  static constexpr int threads = segment / words;
  __device__ static void scan(const std::uint32_t* input, std::uint32_t* output) {
    __shared__ std::uint32_t sums[threads / 32];
    std::uint32_t sum[words];
#pragma unroll
    for (int j = 0; j < words; ++j) sum[j] = input[j] + (j > 0 ? sum[j - 1] : 0);
    const std::uint32_t own = sum[words - 1], of_warp = scan_warp(own);
    if (threadIdx.x % 32 == 31) sums[threadIdx.x / 32] = of_warp;
    __syncthreads();
    if (threadIdx.x < 32) {
      const std::uint32_t all = scan_warp(threadIdx.x < threads / 32 ? sums[threadIdx.x] : 0);
      if (threadIdx.x < threads / 32) sums[threadIdx.x] = all;
    }
    __syncthreads();
    const std::uint32_t before =
        of_warp - own + (threadIdx.x < 32 ? 0 : sums[threadIdx.x / 32 - 1]);
#pragma unroll
    for (int j = 0; j < words; ++j) output[j] = before + sum[j];
  }
};

template <int segment>
using OneEach = ByWarps<segment, 1>;
template <int segment>
using FourEach = ByWarps<segment, 4>;

/// Each thread gets its first word.
template <class Block>
__global__ void __launch_bounds__(Block::threads) scan_block(const Problem problem) {
  const std::int64_t words = problem.segment / Block::threads;
  const std::int64_t first = (std::int64_t{blockIdx.x} * Block::threads + threadIdx.x) * words;
  Block::scan(problem.input + first, problem.output + first);
}

template <class Block>
cudaError_t launch_blocks(const Problem& problem, cudaStream_t stream) {
  if (problem.segments == 0) return cudaSuccess;
  scan_block<Block><<<grid_of(problem.segments), Block::threads, 0, stream>>>(problem);
  return cudaGetLastError();
}

template <template <int> class Block>
cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  return problem.segment == 256 ? launch_blocks<Block<256>>(problem, stream)
                                : launch_blocks<Block<512>>(problem, stream);
}

Support supports(const Problem& problem) {
  if (problem.segment != 256 && problem.segment != 512) {
    return Support::no("restarts every 256 or 512 words");
  }
  if (problem.segments <= max_blocks) return Support::yes();
  return Support::no("a grid has 2^31 - 1 blocks at most");
}

template <template <int> class Block>
Definition<Problem> scan(const char* name, const char* lineage) {
  return {.name = name,
          .lineage = lineage,
          .source_file = "kernels/scan/block_scans.cu",
          .supports = supports,
          .launch = launch<Block>};
}

const Register<Problem> registered[] = {
    scan<InGlobal>("scan_in_global", "Veitner, kernel 0"),
    scan<InShared>("scan_in_shared", "Veitner, kernel 1"),
    scan<TwoBuffers>("scan_two_buffers", "Veitner, kernel 2"),
    scan<OneEach>("scan_warps", "Veitner, kernel 3"),
    scan<FourEach>("scan_four_each", "Veitner, kernel 4"),
};

}  // namespace
}  // namespace reprolab::scan
