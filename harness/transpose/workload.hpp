// Matrix transpose as a workload of the harness.
#pragma once

#include <optional>

#include "harness/family.hpp"
#include "harness/transpose/matrix.hpp"
#include "kernels/transpose/problem.hpp"
#include "profiling/cuda_check.hpp"

namespace reprolab::transpose {

class TransposeWorkload : public Workload {
 public:
  /// Fills `buffer_sets` inputs on the device, each different matrix from its own seed. Up to
  /// `max_on_host` elements, the reference transposes the first matrix on the host; everything
  /// else is computed on the device, element by element.
  TransposeWorkload(const MatrixSpec& spec, std::uint64_t seed, int buffer_sets);

  const ProblemFacts& facts() const override { return facts_; }
  int buffer_sets() const override { return static_cast<int>(outputs_.size()); }
  Support supports(const std::string& kernel) const override;
  cudaError_t launch(const std::string& kernel, int buffer_set, cudaStream_t stream) const override;
  void* output(int buffer_set) const override {
    return outputs_[static_cast<std::size_t>(buffer_set)].data();
  }
  std::span<const std::byte> input(int buffer_set) const override;
  std::span<const std::byte> expected() const override;
  void write_expected(int matrix, void* to, cudaStream_t stream) const override;
  void write_declared(const std::string& kernel, std::span<std::byte> output) const override;
  std::string describe(int matrix, const reference::Comparison& found, std::uint32_t expected,
                       std::uint32_t actual) const override;

 private:
  void fill_inputs() override;
  Problem problem(int buffer_set) const;
  std::uint64_t seed_of(int matrix) const { return seed_ + static_cast<std::uint64_t>(matrix); }

  MatrixSpec spec_;
  std::uint64_t seed_;
  ProblemFacts facts_;
  std::optional<Matrix> on_host_;
  std::vector<profiling::DeviceBuffer> inputs_, outputs_;
};

/// 8 GiB of fp32: the host holds up to four arrays of that size.
inline constexpr std::int64_t max_on_host = std::int64_t{1} << 31;

/// A matrix as a problem that can be prepared.
PlannedProblem plan(const MatrixSpec& spec);

}  // namespace reprolab::transpose
