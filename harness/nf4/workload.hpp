// NF4 dequantization as a workload of the harness.
#pragma once

#include <memory>

#include "harness/nf4/device_tensor.hpp"
#include "harness/nf4/tensor.hpp"
#include "harness/workload.hpp"

namespace reprolab::nf4 {

class Nf4Workload : public Workload {
 public:
  /// Copies `tensors`, one or several of one shape, in turn to `buffer_sets` buffer sets in device
  /// memory. Every array begins `offset` elements past an aligned address.
  Nf4Workload(ProblemFacts facts, std::vector<Tensor> tensors, int buffer_sets, int offset = 0);

  const ProblemFacts& facts() const override { return facts_; }
  int buffer_sets() const override { return static_cast<int>(outputs_.size()); }
  Support supports(const std::string& kernel) const override;
  cudaError_t launch(const std::string& kernel, int buffer_set, cudaStream_t stream) const override;
  void* output(int buffer_set) const override {
    return outputs_[static_cast<std::size_t>(buffer_set)].as<std::uint16_t>() + offset_;
  }
  std::span<const std::byte> input(int buffer_set) const override;
  std::span<const std::byte> expected() const override;
  void write_expected(int matrix, void* to, cudaStream_t stream) const override;
  void write_declared(const std::string& kernel, std::span<std::byte> output) const override;
  std::string describe(int matrix, const reference::Comparison& found, std::uint32_t expected,
                       std::uint32_t actual) const override;

  const DeviceTensor& tensor(int buffer_set) const {
    return inputs_[static_cast<std::size_t>(buffer_set)];
  }

 private:
  void fill_inputs() override;

  ProblemFacts facts_;
  int offset_;
  std::vector<Tensor> tensors_;  ///< Indexed by matrix.
  std::vector<DeviceTensor> inputs_;
  std::vector<profiling::DeviceBuffer> outputs_;
};

/// The facts of one matrix; `used_by` names the layers that have its shape.
ProblemFacts describe_problem(const std::string& name, const TensorSpec& spec,
                              const std::vector<std::string>& used_by);

/// As many different matrices as `buffer_sets` buffer sets hold, each from its own seed.
std::vector<Tensor> make_tensors(const TensorSpec& spec, std::uint64_t seed, int buffer_sets);

}  // namespace reprolab::nf4
