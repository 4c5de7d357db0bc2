// Comparison of outputs on the device, bit for bit: for copies of an output that the host has
// already verified, where bringing each one back would take longer than the experiment.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "profiling/cuda_check.hpp"
#include "reference/compare.hpp"

namespace reprolab {

class DeviceComparison {
 public:
  /// Plants a flipped bit, a NaN, a -0.0 and an unwritten element, for both sizes of elements, and
  /// throws std::logic_error unless each is found: an instance is a proof.
  explicit DeviceComparison(cudaStream_t stream);

  /// Compares `elements` of `element_bytes` (2 or 4) in device memory; waits for the answer.
  reference::Comparison compare(const void* expected, const void* actual, std::int64_t elements,
                                int element_bytes) const;

 private:
  struct Found {
    unsigned long long mismatches;
    unsigned long long first;
  };
  template <class Bits>
  struct Faults {
    Bits nan, negative_zero;
  };
  void prove() const;
  template <class Bits>
  void prove(const Faults<Bits>& faults) const;

  cudaStream_t stream_;
  profiling::DeviceBuffer found_{sizeof(Found)};
};

/// What outputs are filled with before a launch: a NaN that no rounding produces, so that an
/// element nobody writes never passes for a written one.
inline constexpr int poison_byte = 0xff;

}  // namespace reprolab
