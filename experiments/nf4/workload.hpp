// NF4 dequantization as a workload of the harness.
#pragma once

#include <memory>

#include "experiments/harness/workload.hpp"
#include "experiments/nf4/device_tensor.hpp"
#include "experiments/nf4/tensor.hpp"

namespace reprolab::nf4 {

class Nf4Workload : public Workload {
 public:
  /// Copies `tensor` to `slots` places in device memory.
  Nf4Workload(ProblemFacts facts, Tensor tensor, int slots);

  const ProblemFacts& facts() const override { return facts_; }
  int slots() const override { return static_cast<int>(outputs_.size()); }
  Support supports(const std::string& kernel) const override;
  cudaError_t launch(const std::string& kernel, int slot, cudaStream_t stream) const override;
  void* output(int slot) const override { return outputs_[static_cast<std::size_t>(slot)].data(); }
  Traffic traffic(int slot) const override;
  std::span<const std::byte> expected() const override;
  void emulate(const std::string& kernel, std::span<std::byte> output) const override;
  std::string describe(const reference::Comparison& found, std::uint32_t expected,
                       std::uint32_t actual) const override;

  const DeviceTensor& input(int slot) const { return inputs_[static_cast<std::size_t>(slot)]; }

 private:
  ProblemFacts facts_;
  Tensor tensor_;
  std::vector<DeviceTensor> inputs_;
  std::vector<profiling::DeviceBuffer> outputs_;
};

/// The facts of one matrix; `used_by` names the layers that have its shape.
ProblemFacts describe_problem(const std::string& name, const TensorSpec& spec,
                              const std::vector<std::string>& used_by);

}  // namespace reprolab::nf4
