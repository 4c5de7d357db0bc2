// Checks on the device: outputs are compared there, because copying every launch's output back
// would take longer than the experiment, and some outputs are too large for a host; launches write
// no memory that is not theirs, really write their output again, and wait for the work before them.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "harness/device_state.hpp"
#include "harness/errors.hpp"
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

  /// Enqueues a comparison of `elements` of `element_bytes` (2 or 4) in device memory: of every
  /// `stride`-th group of 16 bytes.
  void enqueue(ExpectedOutput expected, const void* actual, std::int64_t elements,
               int element_bytes, std::int64_t stride = 1) const;

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
  void reset() const;
  template <class Bits>
  void self_test(Bits nan, Bits negative_zero) const;

  cudaStream_t stream_;
  std::int64_t max_blocks_;  ///< Maximum grid size; threads stride over longer arrays.
  profiling::DeviceBuffer found_{sizeof(FoundMismatches)};
  /// Pinned, so that copies to and from it wait only for this stream.
  profiling::MappedArray<FoundMismatches> result_{1}, nothing_{1};
};

/// Memory that no kernel may write: inputs, the guards after outputs, and the data that outputs are
/// compared with. Writing there would invalidate the rows of other kernels.
class ProtectedMemory {
 public:
  /// A range of device memory, of any alignment.
  struct Region {
    const void* data = nullptr;
    std::uint64_t bytes = 0;
  };

  /// Stores a checksum of the regions' contents after the work that is enqueued on `stream`.
  ProtectedMemory(const std::vector<Region>& regions, cudaStream_t stream);

  /// Whether the contents have changed since; waits for `stream`.
  bool changed() const { return checksum() != original_; }

  /// Throws KernelCrashed for that kernel if they have.
  void require_unchanged(const std::string& kernel) const {
    if (changed()) throw KernelCrashed(kernel, "changed memory that is not its output");
  }

 private:
  std::uint64_t checksum() const;

  cudaStream_t stream_;
  unsigned count_ = 0, blocks_ = 1;
  profiling::DeviceBuffer regions_;
  profiling::DeviceBuffer sum_{sizeof(std::uint64_t)};
  std::uint64_t original_ = 0;
};

/// For launches that repeat each other in the same memory: a kernel that detects its output as
/// already written, or counts its launches, could skip all but the first. Single random elements of
/// one launch's output are overwritten before it, so that a kernel cannot find them without reading
/// all of the output.
class RepeatCheck {
 public:
  static constexpr int places = 64;
  /// Elements of the output, and the bits that overwrite them.
  struct Places {
    std::array<std::uint64_t, places> element;
    std::array<std::uint32_t, places> bits;
  };

  /// Chooses one of `launches`, the checked elements of its output and their bits. No seed predicts
  /// them.
  void choose(int launches);
  /// Chooses no launch.
  void choose_none() { chosen_ = -1; }

  /// Enqueues launch number `launch` by `enqueue`; it writes the `elements` of `output`, in
  /// `buffer_set`. For the chosen launch, overwrites the chosen elements before it and saves them
  /// after it, which takes a few microseconds in the stream.
  void around(int launch, int buffer_set, void* output, std::int64_t elements, int element_bytes,
              cudaStream_t stream, const std::function<void()>& enqueue);

  /// The buffer set of the chosen launch; negative if none was chosen or enqueued.
  int buffer_set() const { return chosen_ < 0 ? -1 : buffer_set_; }
  /// Whether the chosen launch wrote the expected output there. Waits.
  bool written_again(ExpectedOutput expected, int element_bytes,
                     const DeviceComparison& comparison) const;

 private:
  std::random_device random_;
  int chosen_ = -1, buffer_set_ = -1;
  Places places_{};  ///< Random; `around` makes them elements of the output.
  cudaStream_t stream_ = nullptr;
  profiling::DeviceBuffer saved_{places * sizeof(std::uint32_t)}, low_{saved_.bytes()},
      high_{saved_.bytes()};
};

/// Enqueues work that copies `from` to `to`, but only after a while, and that lets a programmatic
/// launch after it begin at once: a kernel that does not wait for it reads what was there before.
void deliver_late(std::span<const std::byte> to, const void* from, cudaStream_t stream);

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
