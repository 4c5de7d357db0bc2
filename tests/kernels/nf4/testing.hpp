// Shared by the tests of the NF4 kernels: tensors, the kernels, and how one is run on a tensor.
#pragma once

#include <string>
#include <vector>

#include "harness/nf4/device_tensor.hpp"
#include "harness/nf4/tensor.hpp"
#include "harness/nf4/workload.hpp"
#include "kernels/nf4/problem.hpp"
#include "tests/kernels/nf4/problems.hpp"
#include "tests/kernels/testing.hpp"

namespace reprolab::nf4 {

inline std::vector<VariantInfo> registered_kernels() { return kernels_of_files<Problem>(); }

/// The names of the bit-exact kernels.
inline std::vector<std::string> exact_kernels() {
  std::vector<std::string> names;
  for (const VariantInfo& kernel : registered_kernels()) {
    if (!kernel.contract.deviates()) names.push_back(kernel.name);
  }
  return names;
}

/// Facts about a hand-made tensor.
inline ProblemFacts facts_of(const Tensor& tensor) {
  return {.name = tensor.quantized.name,
          .description = {{"name", tensor.quantized.name}, {"family", "nf4"}},
          .elements = tensor.quantized.n,
          .element_bytes = 2,
          .bytes_read = tensor.quantized.codes.size() + 4 * tensor.quantized.absmax.size(),
          .bytes_written = 2 * tensor.expected.size()};
}

/// The declared output of `kernel` for `tensor`; unwritten elements are poison.
inline std::vector<std::uint16_t> declared_output(const VariantInfo& kernel, const Tensor& tensor) {
  std::vector<std::uint16_t> output(tensor.expected.size(), 0xffff);
  kernel_named<Problem>(kernel.name)
      .expected_output(host_problem(tensor.quantized, output.data()), 0, tensor.quantized.n);
  return output;
}

/// The outcome that `kernel` must have on `tensor`, by its `supports` and its contract.
inline Outcome promised(const VariantInfo& kernel, const Tensor& tensor) {
  if (!kernel_named<Problem>(kernel.name).supports(host_problem(tensor.quantized, nullptr)).ok) {
    return Outcome::unsupported;
  }
  if (!kernel.contract.deviates()) return Outcome::bit_exact;
  // Compares bits, so that NaN equals itself.
  return declared_output(kernel, tensor) == tensor.expected ? Outcome::bit_exact
                                                            : Outcome::deviation_as_declared;
}

/// Tools of the verification of tensors, once per test.
class Proof : public reprolab::Proof {
 public:
  using reprolab::Proof::verify;
  Verification verify(const VariantInfo& kernel, const Tensor& tensor, int buffer_sets = 1) const {
    const std::vector<Tensor> tensors(
        static_cast<std::size_t>(std::min(buffer_sets, distinct_matrices)), tensor);
    return verify(kernel, Nf4Workload(facts_of(tensor), tensors, buffer_sets));
  }

  /// Fails the test unless `kernel`'s outcome on `tensor` is the one that its contract promises.
  void expect_promised(const VariantInfo& kernel, const Tensor& tensor,
                       const std::string& problem) const {
    const Verification verdict = verify(kernel, tensor);
    EXPECT_EQ(name(verdict.outcome), name(promised(kernel, tensor)))
        << kernel.name << " on " << problem << ": " << verdict.reason;
  }
};

/// Launches `kernel` by itself on `tensor`, whose arrays begin `offset` elements past an aligned
/// address, and returns where it wrote outside its output.
inline std::vector<std::int64_t> writes_outside(const std::string& kernel, const Tensor& tensor,
                                                int offset = 0) {
  const DeviceTensor input(tensor.quantized, offset);
  const GuardedOutput output(2 * tensor.expected.size(), 2 * static_cast<std::uint64_t>(offset));
  const Problem problem = input.problem(output.data());
  if (!kernel_named<Problem>(kernel).supports(problem).ok) return {};
  profiling::check(kernel_named<Problem>(kernel).launch(problem, nullptr), kernel);
  profiling::check(cudaDeviceSynchronize(), kernel);
  return output.touched();
}

}  // namespace reprolab::nf4
