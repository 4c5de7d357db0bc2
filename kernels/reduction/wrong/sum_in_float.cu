// Wrong as published: a thread adds its words in a float, which is exact below 2^24 alone, and the
// last warp adds in shared memory without a barrier between its steps, a race.
//
// Source: kernel 1 of P. Shah's fast.cu, written here.
#include "kernels/definition.hpp"
#include "kernels/reduction/problem.hpp"

namespace reprolab::reduction {
namespace {

constexpr int threads = 512, words = 20;

__global__ void sum_in_float(const Problem problem) {
  __shared__ int sums[threads];
  const std::int64_t first = std::int64_t{blockIdx.x} * threads * words + threadIdx.x;
  float sum = 0;
  for (std::int64_t i = first; i < problem.n && i < first + threads * words; i += threads) {
    sum += static_cast<int>(problem.input[i]);
  }
  sums[threadIdx.x] = static_cast<int>(sum);
  __syncthreads();
  for (int active = threads / 2; active > 32; active /= 2) {
    if (threadIdx.x < active) sums[threadIdx.x] += sums[threadIdx.x + active];
    __syncthreads();
  }
  if (threadIdx.x >= 32) return;
  volatile int* const last = sums;
  for (int step = 32; step > 0; step /= 2)
    last[threadIdx.x] = last[threadIdx.x] + last[threadIdx.x + step];
  if (threadIdx.x == 0) atomicAdd(problem.output, static_cast<std::uint32_t>(last[0]));
}

cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  cudaMemsetAsync(problem.output, 0, sizeof *problem.output, stream);
  sum_in_float<<<grid_of(blocks_over(problem.n, threads * words)), threads, 0, stream>>>(problem);
  return cudaGetLastError();
}

const Register<Problem> registered{{
    .name = "sum_in_float",
    .lineage = "fast.cu, kernel 1",
    .supports = [](const Problem&) { return Support::yes(); },
    .launch = launch,
}};

}  // namespace
}  // namespace reprolab::reduction
