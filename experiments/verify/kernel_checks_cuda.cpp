// The build with CUDA: every registered kernel, where the machine has a GPU.
#include <cuda_runtime_api.h>

#include "experiments/harness/errors.hpp"
#include "experiments/harness/selection.hpp"
#include "experiments/harness/verifier.hpp"
#include "experiments/nf4/peers.hpp"
#include "experiments/nf4/workload.hpp"
#include "experiments/verify/kernel_checks.hpp"
#include "profiling/machine.hpp"

namespace reprolab::verify {
namespace {

class GpuKernels : public KernelChecks {
 public:
  explicit GpuKernels(std::vector<VariantInfo> kernels)
      : kernels_(std::move(kernels)), comparison_(stream_.get()) {}

  std::string unavailable() const override { return ""; }

  void check(const reference::QuantizedTensor& tensor, std::span<const std::uint16_t> expected,
             const Report& report) override {
    const auto blocks = static_cast<std::uint64_t>(tensor.absmax.size());
    const ProblemFacts facts{.name = tensor.name,
                             .description = {},
                             .elements = tensor.n,
                             .element_bytes = 2,
                             .bytes_read = tensor.codes.size() + sizeof(float) * blocks,
                             .bytes_written = 2 * expected.size()};
    const nf4::Nf4Workload workload(facts, {tensor, {expected.begin(), expected.end()}}, 1);
    Verifier verifier(workload, comparison_, stream_.get());
    for (const auto& kernel : kernels_) {
      const Verification verdict = verifier.verify(kernel);
      const auto actual = verifier.actual();
      report({.kernel = kernel.name,
              .outcome = verdict.outcome,
              .reason = verdict.reason,
              .found = verdict.found,
              .actual = {reinterpret_cast<const std::uint16_t*>(actual.data()),
                         actual.size() / sizeof(std::uint16_t)}});
    }
  }

 private:
  std::vector<VariantInfo> kernels_;
  profiling::Stream stream_;
  DeviceComparison comparison_;
};

class NoGpu : public KernelChecks {
 public:
  explicit NoGpu(std::string why) : why_(std::move(why)) {}
  std::string unavailable() const override { return why_; }
  void check(const reference::QuantizedTensor&, std::span<const std::uint16_t>,
             const Report&) override {}

 private:
  std::string why_;
};

}  // namespace

std::unique_ptr<KernelChecks> make_kernel_checks(const KernelSelection& selection, int) {
  nf4::load_peers(selection.peers);
  auto kernels = select_kernels(selection.pattern, registered_variants<nf4::Problem>());
  std::string why_not;
  if (profiling::find_gpu(&why_not)) return std::make_unique<GpuKernels>(std::move(kernels));
  if (!selection.pattern.empty() || !selection.peers.empty()) {
    throw UsageError("--kernel and --peer need a GPU: " + why_not);
  }
  return std::make_unique<NoGpu>(why_not);
}

}  // namespace reprolab::verify
