// Tails of a sum: the words of all threads of a block added up, in its first thread.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace reprolab::reduction {

/// Halves the number of words in shared memory until `words` are left, with a barrier a step.
template <int threads>
__device__ std::uint32_t* halved(std::uint32_t own, int words) {
  __shared__ std::uint32_t sums[threads];
  sums[threadIdx.x] = own;
  __syncthreads();
#pragma unroll
  for (int active = threads / 2; active >= words; active /= 2) {
    if (threadIdx.x < active) sums[threadIdx.x] += sums[threadIdx.x + active];
    __syncthreads();
  }
  return sums;
}

/// The last 64 words by one warp, in shared memory.
struct WarpTail {
  template <int threads>
  __device__ static std::uint32_t sum(std::uint32_t own) {
    std::uint32_t* const last = halved<threads>(own, 64);
    if (threadIdx.x >= 32) return 0;
#pragma unroll
    for (int active = 32; active > 0; active /= 2) {
      if (threadIdx.x < active) last[threadIdx.x] += last[threadIdx.x + active];
      __syncwarp();
    }
    return last[0];
  }
};

/// Sums of a warp's words, in its first lane.
struct Shuffle {
  __device__ static std::uint32_t sum(std::uint32_t own) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) own += __shfl_down_sync(0xffffffff, own, lanes);
    return own;
  }
};

/// One instruction, from compute capability 8.0 on.
struct Redux {
  __device__ static std::uint32_t sum(std::uint32_t own) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(0xffffffff, own);
#else
    return own;  // refused by supports()
#endif
  }
};

/// The last 32 words by one warp, in registers.
template <class Warp>
struct RegisterTail {
  template <int threads>
  __device__ static std::uint32_t sum(std::uint32_t own) {
    const std::uint32_t* const last = halved<threads>(own, 32);
    return threadIdx.x < 32 ? Warp::sum(last[threadIdx.x]) : 0;
  }
};

/// Each warp in registers, and their sums by atomic additions in shared memory.
struct AtomicTail {
  template <int threads>
  __device__ static std::uint32_t sum(std::uint32_t own) {
    __shared__ std::uint32_t sum;
    if (threadIdx.x == 0) sum = 0;
    own = Shuffle::sum(own);
    __syncthreads();
    if (threadIdx.x % 32 == 0) atomicAdd(&sum, own);
    __syncthreads();
    return sum;
  }
};

}  // namespace reprolab::reduction
