// Comparison of outputs on the device: copying every launch's output back would take longer than
// the experiment, and some outputs are too large for a host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "harness/device_state.hpp"
#include "profiling/cuda_check.hpp"
#include "reference/compare.hpp"

namespace reprolab {

/// The byte that fills outputs before a launch: a NaN that no rounding produces, so that an
/// unwritten element is never mistaken for a written one.
inline constexpr int poison_byte = 0xff;

/// Expected output in device memory: each element must be from `low` to `high`, in numeric order
/// (reference/compare.hpp).
struct ExpectedOutput {
  /// Bit-exact; null: poison everywhere.
  ExpectedOutput(const void* bits) : low(bits), high(bits) {}
  ExpectedOutput(const void* low_ends, const void* high_ends) : low(low_ends), high(high_ends) {}

  const void* low;
  const void* high;
};

/// Mismatches that comparisons have found so far.
struct FoundMismatches {
  unsigned long long count = 0, first = ~0ull;
  std::uint32_t max_ulps = 0;
};

class DeviceComparison {
 public:
  /// Tests the comparison: plants a flipped bit, a NaN, a -0.0, an unwritten element and values
  /// beyond the ends of an interval, for both sizes of elements, and throws std::logic_error unless
  /// each is found, at its distance in ULPs. All work runs on `stream`.
  explicit DeviceComparison(cudaStream_t stream);

  /// Enqueues a comparison of `elements` of `element_bytes` (2 or 4) in device memory.
  void enqueue(ExpectedOutput expected, const void* actual, std::int64_t elements,
               int element_bytes) const;

  /// Enqueues a negligibly short comparison: 16 bytes at up to 16384 places, spread evenly over the
  /// arrays, including the last bytes.
  void enqueue_spot_check(ExpectedOutput expected, const void* actual, std::int64_t elements,
                          int element_bytes) const;

  /// Waits for the comparisons enqueued since the last call. Returns their total number of
  /// mismatches, the smallest index of a mismatch, and the largest distance.
  reference::Comparison collect() const;

  /// enqueue() and collect() in one call.
  reference::Comparison compare(ExpectedOutput expected, const void* actual, std::int64_t elements,
                                int element_bytes) const {
    enqueue(expected, actual, elements, element_bytes);
    return collect();
  }

 private:
  void compare_every(std::int64_t stride, ExpectedOutput expected, const void* actual,
                     std::int64_t elements, int element_bytes) const;
  void reset() const;
  template <class Bits>
  void self_test(Bits nan, Bits negative_zero) const;

  cudaStream_t stream_;
  std::int64_t max_blocks_;  ///< Maximum grid size; threads stride over longer arrays.
  profiling::DeviceBuffer found_{sizeof(FoundMismatches)};
  /// Pinned, so that copies to and from it wait only for this stream.
  profiling::MappedArray<FoundMismatches> result_{1}, nothing_{1};
};

/// Tools of verification, each tested once: a comparison in the stream of the launches, a
/// comparison in an independent stream, which reads outputs while the stream of the launches is
/// held, and the device state that every kernel must restore.
struct Comparisons {
  explicit Comparisons(cudaStream_t stream) : in_order(stream), state(stream) {}

  DeviceComparison in_order;
  profiling::Stream beside_stream{cudaStreamNonBlocking};
  DeviceComparison beside{beside_stream.get()};
  DeviceState state;
};

}  // namespace reprolab
