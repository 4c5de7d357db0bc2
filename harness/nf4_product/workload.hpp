// Products with NF4 weights as a workload of the harness.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/family.hpp"
#include "harness/nf4/device_tensor.hpp"
#include "harness/nf4_product/product_data.hpp"
#include "kernels/nf4_product/problem.hpp"
#include "reference/nf4_product/bounds.hpp"

namespace reprolab::nf4_product {

class ProductWorkload : public Workload {
 public:
  /// Copies `products`, one or several of one spec, in turn to `buffer_sets` buffer sets in device
  /// memory: codes, scales, activations, bias and the 16-bit weights. Makes the workspace
  /// of every registered kernel that runs the problem.
  ProductWorkload(ProblemFacts facts, std::vector<ProductData> products, int buffer_sets);

  const ProblemFacts& facts() const override { return facts_; }
  int buffer_sets() const override { return static_cast<int>(inputs_.size()); }
  Support supports(const std::string& kernel) const override;
  cudaError_t launch(const std::string& kernel, int buffer_set, cudaStream_t stream) const override;
  void* output(int buffer_set) const override {
    return outputs_[static_cast<std::size_t>(buffer_set)].as<std::uint16_t>() + offset();
  }
  std::span<const std::byte> input(int buffer_set) const override;
  /// Behind outputs and workspaces.
  std::vector<std::span<std::byte>> guards() const override;
  bool is_bounded() const override { return true; }
  /// Computed when it is asked for: takes 2 m n k multiplications in fp64 for each kind of weights.
  Bounds bounds(int matrix, const std::string& reading) const override;
  Findings inspect(const VariantInfo& kernel, const DeviceComparison& comparison,
                   cudaStream_t stream) const override;
  std::string describe(int matrix, const reference::Comparison& found, std::uint32_t expected,
                       std::uint32_t actual) const override;

  /// What a kernel is given for a buffer set.
  Problem problem(const std::string& kernel, int buffer_set) const;

 private:
  void fill_inputs() override;
  void fill(nf4::DeviceTensor& input, const ProductData& product);
  void make_workspaces();
  const ProductSpec& spec() const { return products_[0].spec; }
  int offset() const { return spec().weights.offset; }
  const nf4::DeviceTensor& inputs(int buffer_set) const {
    return inputs_[static_cast<std::size_t>(buffer_set)];
  }
  const void* weights(int buffer_set) const { return inputs(buffer_set).extra() + weights_at_; }

  ProblemFacts facts_;
  std::vector<ProductData> products_;                          ///< Indexed by matrix.
  std::uint64_t input_at_ = 0, bias_at_ = 0, weights_at_ = 0;  ///< In what is extra of an input.
  std::vector<nf4::DeviceTensor> inputs_;
  std::vector<profiling::DeviceBuffer> outputs_;
  struct Workspace {
    profiling::DeviceBuffer memory;  ///< `guard_bytes` longer than what the kernel is given.
    bool given_weights = false;      ///< Whether the kernel multiplies by 16-bit weights.
  };
  std::map<std::string, Workspace> workspaces_;  ///< Of every kernel that runs the problem.
  mutable std::map<std::pair<int, reference::Weights>, reference::ProductSums> sums_;
  mutable std::map<std::pair<int, reference::Reading>, reference::Bounds> bounds_;
};

/// A spec as a problem that can be prepared. `used_by` names the layers that have its shape.
PlannedProblem plan(const ProductSpec& spec, const std::vector<std::string>& used_by);

}  // namespace reprolab::nf4_product
