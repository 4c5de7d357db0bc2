// Checks of launches on the device: that they write no memory that is not theirs, that a launch
// really writes its output again, and that it waits for the work before it.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "harness/device_compare.hpp"
#include "harness/errors.hpp"
#include "profiling/cuda_check.hpp"

namespace reprolab {

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
  profiling::DeviceBuffer saved_{places * sizeof(std::uint32_t)};
};

/// Enqueues work that copies `from` to `to`, but only after a while, and that lets a programmatic
/// launch after it begin at once: a kernel that does not wait for it reads what was there before.
void deliver_late(std::span<const std::byte> to, const void* from, cudaStream_t stream);

}  // namespace reprolab
