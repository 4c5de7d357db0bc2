// How the GPU tests run an NF4 kernel on a tensor.
#pragma once

#include "harness/nf4/workload.hpp"
#include "tests/kernels/nf4/testing.hpp"
#include "tests/kernels/on_gpu.hpp"

namespace reprolab::nf4 {

/// What the verification of tensors needs, once per test.
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
    const Verification found = verify(kernel, tensor);
    EXPECT_EQ(name(found.outcome), name(promised(kernel, tensor)))
        << kernel.name << " on " << problem << ": " << found.reason;
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
