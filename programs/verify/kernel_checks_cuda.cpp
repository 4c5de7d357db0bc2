// The build with CUDA: every registered kernel, if the machine has a GPU.
#include <algorithm>
#include <memory>

#include "harness/nf4/options.hpp"
#include "harness/nf4/workload.hpp"
#include "harness/provenance.hpp"
#include "harness/selection.hpp"
#include "harness/verifier.hpp"
#include "programs/verify/kernel_checks.hpp"

namespace reprolab::verify {
namespace {

/// Made by the process that uses the GPU.
struct Device {
  profiling::Stream stream;
  Comparisons comparisons{stream.get()};
};

void run_kernels(Device& device, const std::vector<VariantInfo>& kernels,
                 const reference::QuantizedTensor& tensor, std::span<const std::uint16_t> expected,
                 const std::vector<std::string>& selected, const Watchdog& watchdog,
                 const KernelChecks::Report& report) {
  const auto blocks = static_cast<std::uint64_t>(tensor.absmax.size());
  const ProblemFacts facts{.name = tensor.name,
                           .description = {},
                           .elements = tensor.n,
                           .element_bytes = 2,
                           .bytes_read = tensor.codes.size() + sizeof(float) * blocks,
                           .bytes_written = 2 * expected.size()};
  const nf4::Nf4Workload workload(facts, {{tensor, {expected.begin(), expected.end()}}}, 1);
  Verifier verifier(workload, device.comparisons, device.stream.get(), "verify");
  const auto instrument = profiling::make_instrument(profiling::InstrumentKind::none);
  for (const auto& kernel : kernels) {
    if (std::ranges::find(selected, kernel.name) == selected.end()) continue;
    const Verification verdict =
        watchdog.turn(kernel.name, [&] { return verifier.verify(kernel, *instrument); });
    const auto actual = verifier.actual();
    report({.kernel = kernel.name,
            .outcome = verdict.outcome,
            .reason = verdict.reason,
            .comparison = verdict.comparison,
            .actual = {reinterpret_cast<const std::uint16_t*>(actual.data()),
                       actual.size() / sizeof(std::uint16_t)}});
  }
}

}  // namespace

KernelChecks find_kernels(const std::string& pattern, const std::vector<std::string>& peers) {
  const auto kernels = nf4::load_kernels(pattern, peers);
  std::string why_not;
  if (!find_machine(&why_not)) {
    if (pattern.empty() && peers.empty()) return {.unavailable = why_not};
    throw UsageError("--kernel and --peer need a GPU: " + why_not);
  }
  KernelChecks checks;
  checks.names = names_of(kernels);
  checks.run = [kernels, device = std::shared_ptr<Device>()](const auto&... arguments) mutable {
    if (!device) device = std::make_shared<Device>();
    run_kernels(*device, kernels, arguments...);
  };
  return checks;
}

}  // namespace reprolab::verify
