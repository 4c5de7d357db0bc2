// Matrix transpose as a workload of the harness.
#pragma once

#include <optional>

#include "harness/family.hpp"
#include "harness/transpose/matrix.hpp"
#include "kernels/transpose/problem.hpp"

namespace reprolab::transpose {

class TransposeWorkload : public FamilyWorkload<Problem> {
 public:
  /// Fills `buffer_sets` inputs on the device, each different matrix from its own seed. Up to
  /// `max_on_host` elements, the reference transposes the first matrix on the host; everything
  /// else is computed on the device, element by element.
  TransposeWorkload(const MatrixSpec& spec, std::uint64_t seed, int buffer_sets);

  Problem problem(const std::string&, int buffer_set) const override;
  std::span<const std::byte> input(int buffer_set) const override;
  Bounds bounds(int matrix, const std::string&) const override;
  void write_expected(int matrix, void* to, cudaStream_t stream) const override;
  std::string describe(int, const reference::Comparison& comparison, std::uint32_t expected,
                       std::uint32_t actual) const override {
    return describe_mismatch(comparison, spec_, expected, actual);
  }

 private:
  void fill_inputs() override;
  Problem problem_on_host(void* output) const override;
  std::uint64_t seed_of(int matrix) const { return seed_ + static_cast<std::uint64_t>(matrix); }

  MatrixSpec spec_;
  std::uint64_t seed_;
  std::optional<Matrix> on_host_;
  std::vector<profiling::DeviceBuffer> inputs_;
};

/// Fills device memory with the input of `spec`, or with its transpose, gaps included. Enqueues and
/// returns.
void fill_matrix(std::uint32_t* array, const MatrixSpec& spec, bool transposed, std::uint64_t seed,
                 cudaStream_t stream);

/// 8 GiB of fp32: the host holds up to four arrays of that size.
inline constexpr std::int64_t max_on_host = std::int64_t{1} << 31;

/// A matrix as a problem that can be prepared.
PlannedProblem plan(const MatrixSpec& spec);

}  // namespace reprolab::transpose
