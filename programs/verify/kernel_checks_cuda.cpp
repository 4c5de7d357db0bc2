// The build with CUDA: every registered kernel, if the machine has a GPU.
#include <algorithm>

#include "harness/nf4/compiled_kernels.hpp"
#include "harness/nf4/options.hpp"
#include "harness/nf4/workload.hpp"
#include "harness/provenance.hpp"
#include "harness/verifier.hpp"
#include "programs/verify/kernel_checks.hpp"

namespace reprolab::verify {
namespace {

class Kernels : public KernelChecks {
 public:
  Kernels(std::vector<VariantInfo> kernels, std::string unavailable)
      : kernels_(std::move(kernels)), unavailable_(std::move(unavailable)) {}

  std::string unavailable() const override { return unavailable_; }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& kernel : kernels_) names.push_back(kernel.name);
    return unavailable_.empty() ? names : std::vector<std::string>{};
  }

  void check(const reference::QuantizedTensor& tensor, std::span<const std::uint16_t> expected,
             const std::vector<std::string>& asked, const Watchdog& watchdog,
             const Report& report) override {
    if (!stream_) {
      stream_ = std::make_unique<profiling::Stream>();
      comparisons_ = std::make_unique<Comparisons>(stream_->get());
    }
    const auto blocks = static_cast<std::uint64_t>(tensor.absmax.size());
    const ProblemFacts facts{.name = tensor.name,
                             .description = {},
                             .elements = tensor.n,
                             .element_bytes = 2,
                             .bytes_read = tensor.codes.size() + sizeof(float) * blocks,
                             .bytes_written = 2 * expected.size()};
    const nf4::Nf4Workload workload(facts, {{tensor, {expected.begin(), expected.end()}}}, 1);
    Verifier verifier(workload, *comparisons_, stream_->get(), "verify");
    const auto instrument = profiling::make_instrument(profiling::InstrumentKind::none);
    for (const auto& kernel : kernels_) {
      if (std::ranges::find(asked, kernel.name) == asked.end()) continue;
      watchdog.begin(kernel.name);
      const Verification verdict = verifier.verify(kernel, *instrument);
      watchdog.end();
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
  std::string unavailable_;
  std::unique_ptr<profiling::Stream> stream_;  ///< Made, like the next, by the process on the GPU.
  std::unique_ptr<Comparisons> comparisons_;
};

}  // namespace

std::unique_ptr<KernelChecks> make_kernel_checks(const KernelSelection& selection) {
  nf4::load_compiled_kernels();
  nf4::load_peers(selection.peers);
  auto kernels = nf4::select_kernels(selection.pattern);
  std::string why_not;
  const bool has_gpu = find_machine(&why_not).has_value();
  if (!has_gpu && (!selection.pattern.empty() || !selection.peers.empty())) {
    throw UsageError("--kernel and --peer need a GPU: " + why_not);
  }
  return std::make_unique<Kernels>(std::move(kernels), has_gpu ? "" : why_not);
}

}  // namespace reprolab::verify
