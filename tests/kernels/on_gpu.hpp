// How the GPU tests run a kernel: through the harness's verifier, or alone, with guards around its
// output.
#pragma once

#include <span>

#include "experiments/harness/verifier.hpp"
#include "experiments/nf4/workload.hpp"
#include "reference/compare.hpp"
#include "tests/kernels/testing.hpp"

namespace reprolab::nf4 {

/// What verifying takes, once a test.
class Proof {
 public:
  Proof() : comparison_(stream_.get()) { reference::prove_comparison(); }

  Verification verify(const VariantInfo& kernel, const Tensor& tensor, int slots = 1) const {
    const Nf4Workload workload(facts_of(tensor), tensor, slots);
    Verifier verifier(workload, comparison_, stream_.get());
    return verifier.verify(kernel);
  }

  /// Fails the test unless `kernel` ends on `tensor` as its contract promises.
  void expect_promised(const VariantInfo& kernel, const Tensor& tensor,
                       const std::string& problem) const {
    const Verification found = verify(kernel, tensor);
    EXPECT_EQ(name(found.outcome), name(promised(kernel, tensor)))
        << kernel.name << " on " << problem << ": " << found.reason;
  }

  const DeviceComparison& comparison() const { return comparison_; }
  cudaStream_t stream() const { return stream_.get(); }

 private:
  profiling::Stream stream_;
  DeviceComparison comparison_;
};

/// An output on the device with `guard` bytes of a pattern before and behind it.
class GuardedOutput {
 public:
  static constexpr std::uint64_t guard = 65536;  // farther than a tile or block reaches
  static constexpr int pattern = 0xa5;

  explicit GuardedOutput(std::uint64_t bytes) : bytes_(bytes), memory_(bytes + 2 * guard) {
    profiling::check(cudaMemset(memory_.data(), pattern, memory_.bytes()), "laying guards");
  }

  void* data() const { return memory_.as<std::byte>() + guard; }

  /// Where a guard was touched, as bytes from the output's start; empty where none was.
  std::vector<std::int64_t> touched() const {
    std::vector<std::uint8_t> host(memory_.bytes());
    profiling::check(cudaMemcpy(host.data(), memory_.data(), host.size(), cudaMemcpyDeviceToHost),
                     "reading the guards");
    std::vector<std::int64_t> found;
    for (std::uint64_t i = 0; i < host.size(); ++i) {
      const bool inside = i >= guard && i < guard + bytes_;
      if (!inside && host[i] != pattern) {
        found.push_back(static_cast<std::int64_t>(i) - static_cast<std::int64_t>(guard));
      }
    }
    return found;
  }

 private:
  std::uint64_t bytes_;
  profiling::DeviceBuffer memory_;
};

/// Launches `kernel` on `tensor` alone and returns where it wrote outside its output.
inline std::vector<std::int64_t> writes_outside(const std::string& kernel, const Tensor& tensor) {
  const DeviceTensor input(tensor.quantized);
  const GuardedOutput output(2 * tensor.expected.size());
  const Problem problem = input.problem(output.data());
  if (!kernel_named(kernel).supports(problem).ok) return {};
  profiling::check(kernel_named(kernel).launch(problem, nullptr), kernel);
  profiling::check(cudaDeviceSynchronize(), kernel);
  return output.touched();
}

}  // namespace reprolab::nf4
