// Shared by the tests of all families' kernels: test suites with one kernel at a time, run by the
// harness's verifier.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "harness/family.hpp"
#include "harness/verifier.hpp"
#include "reference/compare.hpp"
#include "tests/on_gpu.hpp"

namespace reprolab {

/// The registered kernel of that name.
template <class Problem>
VariantInfo variant_named(const std::string& name) {
  const auto all = registered_variants<Problem>();
  return *std::ranges::find(all, name, &VariantInfo::name);
}

/// All kernels that are registered by their files, without the peers that tests add.
template <class Problem>
std::vector<VariantInfo> kernels_of_files() {
  auto kernels = registered_variants<Problem>();
  std::erase_if(kernels, [](const VariantInfo& kernel) {
    return kernel.source_file.ends_with("/bitsandbytes_peer.cu");
  });
  return kernels;
}

/// A test of each of a family's kernels; it is named after the kernel, and needs a GPU.
class OnGpuEachKernel : public OnGpuTest, public testing::WithParamInterface<VariantInfo> {};

/// The suffix of a test's name.
inline std::string name_of(const testing::TestParamInfo<VariantInfo>& info) {
  return info.param.name;
}

/// Tools of verification; without an instrument, they judge outputs and memory alone.
class Proof {
 public:
  explicit Proof(profiling::InstrumentKind kind = profiling::InstrumentKind::none)
      : instrument_(profiling::make_instrument(kind)) {
    [[maybe_unused]] static const bool tested = (reference::self_test_comparison(), true);
  }

  Verification verify(const VariantInfo& kernel, const Workload& workload) const {
    Verifier verifier(workload, comparisons_, stream_.get());
    return verifier.verify(kernel, *instrument_);
  }

  const DeviceComparison& comparison() const { return comparisons_.in_order; }
  cudaStream_t stream() const { return stream_.get(); }

 private:
  profiling::Stream stream_;
  Comparisons comparisons_{stream_.get()};
  std::unique_ptr<profiling::Instrument> instrument_;
};

}  // namespace reprolab
