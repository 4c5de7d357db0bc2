// Split-K in few_rows: the last block to arrive of those that share columns of the output adds
// their partial sums.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "kernels/nf4_product/epilogue.cuh"

namespace reprolab::nf4_product {

/// Writes columns `first_n` to `first_n` + 3 of a row of the output, as many as exist.
template <class Out>
__device__ void write_four(void* output, std::int64_t m_index, std::int64_t first_n, std::int64_t n,
                           float4 sums, const void* bias) {
  const float values[4] = {sums.x, sums.y, sums.z, sums.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (first_n + i < n) {
      write_output<Out>(output, m_index * n + first_n + i, values[i], bias, first_n + i);
    }
  }
}

/// The partial sums of all slices of K, in the workspace.
struct PartialSums {
  float* sums = nullptr;  ///< [split_k][m][pitch(n)]
  int split_k = 0;
  std::int64_t m = 0, n = 0;

  __host__ __device__ static std::int64_t pitch(std::int64_t n) { return (n + 3) / 4 * 4; }
  static std::int64_t bytes(int split_k, std::int64_t m, std::int64_t n) {
    return split_k > 1 ? split_k * m * pitch(n) * 4 : 0;
  }
  /// Aligned to 16 bytes where `first_n` is a multiple of four.
  __device__ float* at(int slice, std::int64_t m_index, std::int64_t first_n) const {
    return sums + (slice * m + m_index) * pitch(n) + first_n;
  }
};

/// Adds the slices of four columns of a row, in order.
template <class Out>
__device__ void add_four(const PartialSums& partial, std::int64_t m_index, std::int64_t first_n,
                         const void* bias, void* output) {
  float4 total = {};
#pragma unroll 4
  for (int slice = 0; slice < partial.split_k; ++slice) {
    const auto* const at = reinterpret_cast<const float4*>(partial.at(slice, m_index, first_n));
    const float4 sums = __ldcg(at);
    total.x += sums.x, total.y += sums.y, total.z += sums.z, total.w += sums.w;
  }
  write_four<Out>(output, m_index, first_n, partial.n, total, bias);
}

/// Counters of arrived slices, in memory with any content: a counter counts as 0 unless its upper
/// 40 bits equal the launch's own number, which any other content is unlikely to match.
struct Arrivals {
  unsigned long long* counters = nullptr;  ///< One per range of N.
  unsigned long long launch = 0;

  static constexpr int count_bits = 24;
  static Arrivals of_next_launch(void* counters) {
    // Starts from the time in nanoseconds, so that no process repeats a number of an earlier
    // process; the multiplication maps distinct numbers to distinct ones (Steele et al., "Fast
    // splittable pseudorandom number generators", 2014).
    static std::atomic<std::uint64_t> launches{
        static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count())};
    const std::uint64_t number = launches.fetch_add(1) * 0x9e3779b97f4a7c15u;
    return {static_cast<unsigned long long*>(counters), number >> count_bits};
  }
  /// Whether this is the last of `split_k` arrivals; it resets the counter for a repeated launch.
  __device__ bool is_last(int n_block, int split_k) const {
    // Expect to be the last arrival: its compare-and-swap, on the critical path, then succeeds at
    // once.
    unsigned long long seen = (launch << count_bits) + split_k - 1, expected, next;
    do {
      expected = seen;
      next = (expected >> count_bits == launch ? expected : launch << count_bits) + 1;
      seen = atomicCAS(counters + n_block, expected, next);
    } while (seen != expected);
    const bool is_last = next == (launch << count_bits) + split_k;
    if (is_last) counters[n_block] = 0;
    return is_last;
  }
};

/// Called by all threads of the blocks that share a range of N, after they have written their
/// slices. `reduce` runs only in the last block to arrive, to which all slices are visible.
template <class Reduce>
__device__ void reduce_in_last_block(const Arrivals& arrivals, int n_block, int split_k,
                                     Reduce reduce) {
  __syncthreads();
  bool is_last = false;
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = arrivals.is_last(n_block, split_k);
    __threadfence();
  }
  if (__syncthreads_or(is_last)) reduce();
}

}  // namespace reprolab::nf4_product
