// The true SM clock at one moment of a stream: the number of cycles (clock64) that pass while the
// GPU's wall clock (globaltimer) advances 100 us. NVML's value is a sample of some 10 ms; this one
// belongs to the adjacent batch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>

#include "profiling/cuda_check.hpp"

namespace reprolab::profiling {

class SmClockProbe {
 public:
  /// The result of one probe; both are zero if it gave up because globaltimer stood still.
  struct Window {
    std::uint64_t cycles = 0, nanoseconds = 0;
  };

  /// The SM clock in MHz now, after the work on `stream`: runs one thread on one SM for 0.10 to
  /// 0.17 ms and waits for it. Empty if globaltimer stood still.
  std::optional<double> mhz(cudaStream_t stream);

 private:
  MappedArray<Window> window_{1};
};

}  // namespace reprolab::profiling
