// Matmuls with NF4 weights as a workload of the harness.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/family.hpp"
#include "harness/nf4/workload.hpp"
#include "harness/nf4_product/product_data.hpp"
#include "kernels/nf4_product/problem.hpp"
#include "reference/nf4_product/bounds.hpp"

namespace reprolab::nf4_product {

inline constexpr int runs_that_repeat = 20;

/// `matrix.output` is the output of the product. Sets neither workspace nor 16-bit weights.
Problem problem_of(const ProductSpec& spec, const nf4::Problem& matrix, const void* input,
                   const void* bias);

/// The problem without its memory, for a kernel's `supports`.
Problem without_memory(const ProductSpec& spec);

/// Whether a kernel supports a problem; one that needs 16-bit weights gets `weights`.
struct Offer {
  Support support;
  bool given_weights = false;
};
Offer offer(const Kernel<Problem>& kernel, Problem problem, const void* weights);

class ProductWorkload : public nf4::MatrixWorkload<Problem> {
 public:
  /// Fills `buffer_sets` buffer sets in device memory with codes, scales, activations, bias and the
  /// 16-bit weights, each different matrix from its own seed. Makes the workspace of every
  /// registered kernel that runs the problem.
  ProductWorkload(ProblemFacts facts, const ProductSpec& spec, std::uint64_t seed, int buffer_sets);

  Problem problem(const std::string& kernel, int buffer_set) const override;
  Support supports(const std::string& kernel) const override;
  /// The activations: our kernels read weights that are ready before they wait.
  std::span<const std::byte> late_input(int buffer_set) const override {
    return {tensor(buffer_set).extra() + input_at_,
            2 * static_cast<std::size_t>(spec_.m * spec_.k())};
  }
  /// Computed on demand: 2 m n k multiplications in fp64 for each kind of weights.
  Bounds bounds(int matrix, const std::string& reading) const override;
  Findings inspect(const VariantInfo& kernel, const DeviceComparison& comparison,
                   cudaStream_t stream) const override;
  std::string describe(int, const reference::Comparison& comparison, std::uint32_t expected,
                       std::uint32_t actual) const override {
    return describe_outside(spec_, comparison, static_cast<std::uint16_t>(expected),
                            static_cast<std::uint16_t>(actual));
  }

 private:
  void fill(nf4::DeviceTensor& input, int matrix) const override;
  const void* weights(int buffer_set) const { return tensor(buffer_set).extra() + weights_at_; }

  ProductSpec spec_;
  std::vector<ProductData> products_;                          ///< Indexed by matrix.
  std::uint64_t input_at_ = 0, bias_at_ = 0, weights_at_ = 0;  ///< Offsets in the extra memory.
  std::set<std::string> given_weights_;                        ///< Kernels that need 16-bit ones.
  mutable std::map<std::pair<int, reference::Weights>, reference::ProductSums> sums_;
  mutable std::map<std::pair<int, reference::Reading>, reference::Bounds> bounds_;
};

/// A spec as a problem that can be prepared. `used_by` names the layers that have its shape.
PlannedProblem plan(const ProductSpec& spec, const std::vector<std::string>& used_by);

/// Checks a verified kernel beyond its outputs: whether it is deterministic, whether a row depends
/// on its batch, and which weights it multiplies by.
///
/// Launches `kernel` on `problem`, whose outputs were correct, and with other activations. Outputs
/// are written to separate memory, not to `problem.output`. Sets in `numbers`:
///   rows_different_alone  the number of rows that differ in any bit from the same row as a batch
///   of
///                         one; absent where M is 1, or the kernel does not support M = 1.
/// and if `weights`, the problem's dequantized weights in device memory, is not null,
///   weights_different     the number of weights that differ from those that the kernel multiplies
///                         by, found with one-hot rows for all columns; -0 equals 0;
///   weights_max_ulps      their largest distance.
/// The contract is broken if 20 launches do not give the same bits, or if the kernel falsely
/// declares that it does not depend on the batch, or multiplies by the dequantized weights.
Findings inspect_product(const VariantInfo& kernel, const Problem& problem, const void* weights,
                         const DeviceComparison& comparison, cudaStream_t stream);

}  // namespace reprolab::nf4_product
