// Device copies of a quantized matrix, and the views of them that kernels are given.
#pragma once

#include <cstddef>

#include "kernels/nf4/problem.hpp"
#include "profiling/cuda_check.hpp"
#include "reference/bnb_checkpoint.hpp"

namespace reprolab::nf4 {

/// Codes and scales of one tensor in device memory, in one allocation.
class DeviceTensor {
 public:
  explicit DeviceTensor(const reference::QuantizedTensor& tensor);
  /// A physically distinct copy.
  DeviceTensor(const DeviceTensor& other, cudaStream_t stream);
  DeviceTensor(DeviceTensor&&) = default;

  /// A problem that reads this copy and writes to `output`.
  Problem problem(void* output) const;

  std::byte* data() const { return memory_.as<std::byte>(); }
  std::uint64_t bytes() const { return memory_.bytes(); }

 private:
  Problem at_offsets_;  ///< Everything but the pointers.
  std::size_t scales_at_ = 0, nested_map_at_ = 0, nested_absmax_at_ = 0;
  bool nested_ = false;
  profiling::DeviceBuffer memory_;
};

/// The kernels' word for an output type.
OutputType output_type(reference::WeightType type);

/// The same problem on the host, for a kernel's declared output.
Problem host_problem(const reference::QuantizedTensor& tensor, void* output);

}  // namespace reprolab::nf4
