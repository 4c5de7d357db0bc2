// Checks, for launches that repeat each other in the same memory, whether a randomly chosen one
// really writes its output again. A kernel that detects its output as already written, or counts
// its launches, could otherwise skip all but the first.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <random>

#include "harness/device_compare.hpp"
#include "profiling/cuda_check.hpp"

namespace reprolab {

class RepeatCheck {
 public:
  /// Chooses one of `launches` and the checked place in its output. No seed predicts either.
  void choose(int launches);
  /// Chooses no launch.
  void choose_none() { chosen_ = -1; }

  /// Enqueues launch number `launch` by `enqueue`; it writes `bytes` to `output`, in `buffer_set`.
  /// For the chosen launch, poisons a few bytes of the output before it and saves them after it,
  /// which takes a few microseconds in the stream.
  void around(int launch, int buffer_set, void* output, std::uint64_t bytes, cudaStream_t stream,
              const std::function<void()>& enqueue);

  /// The buffer set of the chosen launch; negative if none was chosen or enqueued.
  int buffer_set() const { return chosen_ < 0 ? -1 : buffer_set_; }
  /// Whether the chosen launch wrote the expected output there. Waits.
  bool written_again(ExpectedOutput expected, int element_bytes,
                     const DeviceComparison& comparison) const;

 private:
  static constexpr std::uint64_t max_bytes = 256;

  std::random_device random_;
  int chosen_ = -1, buffer_set_ = -1;
  std::uint64_t place_ = 0;  ///< Random; within an output, it becomes `offset_`.
  std::uint64_t offset_ = 0, bytes_ = 0;
  profiling::DeviceBuffer saved_{max_bytes};
};

}  // namespace reprolab
