// The true SM clock at one moment of a stream: the number of cycles (clock64) that pass while the
// GPU's wall clock (globaltimer) advances 100 us. NVML's figure is a sample of some 10 ms; this one
// belongs to the batch next to which it is enqueued.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "profiling/cuda_check.hpp"

namespace reprolab::profiling {

/// Result of one probe; both are zero if it has not run or gave up.
struct SmClockReading {
  std::uint64_t cycles = 0;
  std::uint64_t nanoseconds = 0;
};

/// Megahertz; empty for a probe that has not run, or gave up because globaltimer stood still.
std::optional<double> to_mhz(const SmClockReading& reading);

class SmClockProbe {
 public:
  /// Room for `slots` readings; allocates pinned host memory.
  explicit SmClockProbe(std::size_t slots);

  /// Enqueues one probe, 0.10 to 0.17 ms of one thread on one SM, which overwrites that slot's
  /// reading. Throws std::out_of_range if there is no such slot.
  void enqueue(std::size_t slot, cudaStream_t stream);

  /// The reading of a slot; the stream must have been synchronized since the probe was enqueued.
  std::optional<double> mhz(std::size_t slot) const;

 private:
  void require(std::size_t slot) const;
  MappedArray<SmClockReading> readings_;
};

}  // namespace reprolab::profiling
