// NF4 dequantization as a workload of the harness: device copies of quantized matrices, and the
// views that kernels get.
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/nf4/tensor.hpp"
#include "harness/verifier.hpp"
#include "harness/workload.hpp"
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

/// A workload of NF4 matrices, with memory that its family adds to each.
template <class FamilysProblem>
class MatrixWorkload : public FamilyWorkload<FamilysProblem> {
 public:
  using FamilyWorkload<FamilysProblem>::FamilyWorkload;

  const DeviceTensor& tensor(int buffer_set) const {
    return inputs_[static_cast<std::size_t>(buffer_set)];
  }
  std::span<const std::byte> input(int buffer_set) const override {
    return {tensor(buffer_set).data(), tensor(buffer_set).bytes()};
  }

 protected:
  /// Makes all buffer sets: `inputs` has one entry for each different matrix, from which the other
  /// buffer sets are copied. Outputs begin `offset` elements of 2 bytes past an aligned address.
  void add_buffer_sets(std::vector<DeviceTensor> inputs, int buffer_sets, int offset) {
    inputs_ = std::move(inputs);
    inputs_.reserve(static_cast<std::size_t>(buffer_sets));
    for (int next = static_cast<int>(inputs_.size()); next < buffer_sets; ++next) {
      inputs_.emplace_back(tensor(next % distinct_matrices), nullptr);
    }
    for (int i = 0; i < buffer_sets; ++i) this->add_output(2 * static_cast<std::uint64_t>(offset));
  }

 private:
  /// Fills an input from the host.
  virtual void fill(DeviceTensor& input, int matrix) const = 0;
  void fill_inputs() override {
    for (int buffer_set = 0; buffer_set < this->buffer_sets(); ++buffer_set) {
      DeviceTensor& input = inputs_[static_cast<std::size_t>(buffer_set)];
      if (buffer_set < this->matrices()) {
        fill(input, this->matrix_of(buffer_set));
      } else {
        input.fill(tensor(buffer_set % this->matrices()), nullptr);
      }
    }
    profiling::check(cudaDeviceSynchronize(), "exchanging the matrices");
  }

  std::vector<DeviceTensor> inputs_;
};

class Nf4Workload : public MatrixWorkload<Problem> {
 public:
  /// Copies `tensors`, all of one shape, cyclically to `buffer_sets` buffer sets in device memory.
  /// Every array begins `offset` elements past an aligned address.
  Nf4Workload(ProblemFacts facts, std::vector<Tensor> tensors, int buffer_sets, int offset = 0);

  Problem problem(const std::string&, int buffer_set) const override {
    return tensor(buffer_set).problem(output(buffer_set));
  }
  Bounds bounds(int matrix, const std::string&) const override;
  std::string describe(int matrix, const reference::Comparison& comparison, std::uint32_t expected,
                       std::uint32_t actual) const override;

 private:
  void fill(DeviceTensor& input, int matrix) const override {
    input.fill(tensors_[static_cast<std::size_t>(matrix)].quantized);
  }
  Problem problem_on_host(void* output) const override {
    return host_problem(tensors_[0].quantized, output);
  }

  std::vector<Tensor> tensors_;  ///< Indexed by matrix.
};

/// The facts of one matrix; `used_by` names the layers that have its shape.
ProblemFacts describe_problem(const std::string& name, const TensorSpec& spec,
                              const std::vector<std::string>& used_by);

/// The different matrices for `buffer_sets` buffer sets, each from its own seed.
std::vector<Tensor> make_tensors(const TensorSpec& spec, std::uint64_t seed, int buffer_sets);

/// Different matrices of one shape, one in each buffer set, with a verifier of kernels.
struct VerifiedMatrices {
  VerifiedMatrices(const std::string& name, const TensorSpec& spec, int matrices,
                   std::uint64_t seed, const Comparisons& comparisons, cudaStream_t stream,
                   const std::string& experiment)
      : workload(describe_problem(name, spec, {}), make_tensors(spec, seed, matrices), matrices),
        verifier(workload, comparisons, stream, experiment) {}

  /// As Workload::exchange(). Must be called after all calls of verify().
  void exchange() {
    workload.exchange();
    verifier.protect_memory();
  }

  Nf4Workload workload;
  Verifier verifier;
};

}  // namespace reprolab::nf4
