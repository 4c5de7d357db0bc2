// The build without CUDA: no kernels.
#include "programs/verify/kernel_checks.hpp"

namespace reprolab::verify {
namespace {

class NoKernels : public KernelChecks {
 public:
  std::string unavailable() const override { return "built without CUDA"; }
  std::vector<std::string> names() const override { return {}; }
  void check(const reference::QuantizedTensor&, std::span<const std::uint16_t>,
             const std::vector<std::string>&, const Watchdog&, const Report&) override {}
};

}  // namespace

std::unique_ptr<KernelChecks> make_kernel_checks(const KernelSelection& selection) {
  if (!selection.pattern.empty() || !selection.peers.empty()) {
    throw UsageError(
        "--kernel and --peer need kernels, and this program was built without CUDA; "
        "build it with the preset gpu");
  }
  return std::make_unique<NoKernels>();
}

}  // namespace reprolab::verify
