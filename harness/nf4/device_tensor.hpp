// Device copies of a quantized matrix, and the views that kernels get.
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/nf4/tensor.hpp"
#include "kernels/nf4/problem.hpp"
#include "profiling/cuda_check.hpp"

namespace reprolab::nf4 {

/// Codes and scales of one tensor in device memory, in one allocation.
class DeviceTensor {
 public:
  /// Every array starts `offset` elements past an aligned address. Poison fills the gaps between
  /// arrays; no output may depend on it. `extra_bytes` of memory follow.
  explicit DeviceTensor(const reference::QuantizedTensor& tensor, int offset = 0,
                        std::uint64_t extra_bytes = 0);
  /// A physically distinct copy.
  DeviceTensor(const DeviceTensor& other, cudaStream_t stream);
  DeviceTensor(DeviceTensor&&) = default;

  /// Overwrites the contents in place with a tensor of the same sizes; the extra memory is only
  /// overwritten by another copy.
  void fill(const reference::QuantizedTensor& tensor);
  void fill(const DeviceTensor& other, cudaStream_t stream);

  /// A problem that reads this copy and writes to `output`.
  Problem problem(void* output) const;

  std::byte* data() const { return memory_.as<std::byte>(); }
  std::uint64_t bytes() const { return memory_.bytes(); }
  std::byte* extra() const { return data() + at_.extra; }  ///< Aligned.

 private:
  /// The start of each array, in bytes.
  struct Places {
    std::size_t codes = 0, scales = 0, nested_map = 0, nested_absmax = 0, extra = 0;
  };

  Problem on_host_;  ///< `problem` has the arrays of the device in its place.
  Places at_;
  bool nested_ = false;
  profiling::DeviceBuffer memory_;
};

/// The problem of such a tensor without the memory, for a kernel's `supports`.
Problem without_memory(const TensorSpec& spec);

}  // namespace reprolab::nf4
