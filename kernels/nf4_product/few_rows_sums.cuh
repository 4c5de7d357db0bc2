// How the parts of few_rows' sums are added: by the last block of a group to arrive.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "kernels/nf4_product/sums.cuh"

namespace reprolab::nf4_product {

/// Writes outputs `first` to `first` + 3 of a row, as many as exist.
template <class Out>
__device__ void write_four(void* output, std::int64_t row, std::int64_t first, std::int64_t n,
                           float4 sums, const void* bias) {
  const float values[4] = {sums.x, sums.y, sums.z, sums.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (first + i < n) write_output<Out>(output, row * n + first + i, values[i], bias, first + i);
  }
}

/// The sums of the parts of a product, in memory of their own.
struct PartSums {
  float* sums = nullptr;  ///< [parts][m][pitch(n)]
  int parts = 0;
  std::int64_t m = 0, n = 0;

  __host__ __device__ static std::int64_t pitch(std::int64_t n) { return (n + 3) / 4 * 4; }
  static std::int64_t bytes(int parts, std::int64_t m, std::int64_t n) {
    return parts > 1 ? parts * m * pitch(n) * 4 : 0;
  }
  /// Of four outputs from `first` on, a multiple of four: 16 bytes.
  __device__ float* at(int part, std::int64_t row, std::int64_t first) const {
    return sums + (part * m + row) * pitch(n) + first;
  }
};

/// Adds the parts of four outputs from `first` on of a row, in their order.
template <class Out>
__device__ void add_four(const PartSums& parts, std::int64_t row, std::int64_t first,
                         const void* bias, void* output) {
  float4 total = {};
#pragma unroll 4
  for (int p = 0; p < parts.parts; ++p) {
    const float4 sums = __ldcg(reinterpret_cast<const float4*>(parts.at(p, row, first)));
    total.x += sums.x, total.y += sums.y, total.z += sums.z, total.w += sums.w;
  }
  write_four<Out>(output, row, first, parts.n, total, bias);
}

/// Counts arrivals at a place whose content may be anything before the first: it counts as none
/// unless it begins with the launch's own number, 40 bits that nothing else is likely to be.
struct Arrivals {
  unsigned long long* counts = nullptr;  ///< One for each group of blocks.
  unsigned long long launch = 0;

  static constexpr int count_bits = 24;
  static Arrivals of_next_launch(void* counts) {
    // From the time in nanoseconds on, so that no process counts what one before it did; the
    // product repeats no number (Steele et al., "Fast splittable pseudorandom number generators",
    // 2014).
    static std::atomic<std::uint64_t> launches{
        static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count())};
    const std::uint64_t number = launches.fetch_add(1) * 0x9e3779b97f4a7c15u;
    return {static_cast<unsigned long long*>(counts), number >> count_bits};
  }
  /// Whether this is the last of so many; the place is then ready for a repeated launch.
  __device__ bool is_last(int group, int of) const {
    // The last, which all wait for, finds what it guesses.
    unsigned long long found = (launch << count_bits) + of - 1, expected, next;
    do {
      expected = found;
      next = (expected >> count_bits == launch ? expected : launch << count_bits) + 1;
      found = atomicCAS(counts + group, expected, next);
    } while (found != expected);
    const bool is_last = next == (launch << count_bits) + of;
    if (is_last) counts[group] = 0;
    return is_last;
  }
};

/// Called by all threads of the blocks that have a group's parts, when they have written them:
/// `add` runs in the last block alone, which sees all of them.
template <class Add>
__device__ void add_parts_in_last_block(const Arrivals& arrivals, int group, int parts, Add add) {
  __syncthreads();
  bool is_last = false;
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = arrivals.is_last(group, parts);
    __threadfence();
  }
  if (__syncthreads_or(is_last)) add();
}

}  // namespace reprolab::nf4_product
