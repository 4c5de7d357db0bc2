// Shared by the tests of all families' kernels: test suites with one kernel at a time, run by the
// harness's verifier, or alone with guards around its output.
#pragma once

#include <gtest/gtest.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
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

/// The problems of a family that an options line selects.
inline std::vector<PlannedProblem> planned(const std::string& name, const std::string& options,
                                           const std::string& data = "") {
  const auto all = families();
  Family& family = **std::ranges::find(all, name, &Family::name);
  CLI::App app;
  family.add_options(app);
  app.parse(options);
  family.configure();
  return family.problems({~0ull, ~0ull}, {data.empty() ? family.data().front() : data});
}

/// A test of each of a family's kernels; it is named after the kernel, and needs a GPU.
class OnGpuEachKernel : public OnGpuTest, public testing::WithParamInterface<VariantInfo> {};

/// The suffix of a test's name.
inline std::string name_of(const testing::TestParamInfo<VariantInfo>& info) {
  return info.param.name;
}

/// Tools of verification, once per test.
class Proof {
 public:
  Proof() { reference::self_test_comparison(); }

  Verification verify(const VariantInfo& kernel, const Workload& workload) const {
    Verifier verifier(workload, comparisons_, stream_.get());
    return verifier.verify(kernel, *instrument_);
  }

  const DeviceComparison& comparison() const { return comparisons_.in_order; }
  cudaStream_t stream() const { return stream_.get(); }

 private:
  profiling::Stream stream_;
  Comparisons comparisons_{stream_.get()};
  std::unique_ptr<profiling::Instrument> instrument_ =
      profiling::make_instrument(profiling::InstrumentKind::events);
};

/// An output on the device with `guard` bytes of a pattern before and after it, and `offset_bytes`
/// more before it; the output is filled with the same pattern.
class GuardedOutput {
 public:
  static constexpr std::uint64_t guard = 65536;  // farther than a tile or block reaches
  static constexpr int pattern = 0xa5;

  explicit GuardedOutput(std::uint64_t bytes, std::uint64_t offset_bytes = 0)
      : begin_(guard + offset_bytes), bytes_(bytes), memory_(begin_ + bytes + guard) {
    profiling::check(cudaMemset(memory_.data(), pattern, memory_.bytes()), "filling the guards");
  }

  void* data() const { return memory_.as<std::byte>() + begin_; }

  /// The changed bytes of the guards, counted from the output's start.
  std::vector<std::int64_t> touched() const {
    std::vector<std::uint8_t> host(memory_.bytes());
    profiling::check(cudaMemcpy(host.data(), memory_.data(), host.size(), cudaMemcpyDeviceToHost),
                     "reading the guards");
    std::vector<std::int64_t> places;
    for (std::uint64_t i = 0; i < host.size(); ++i) {
      const bool inside = i >= begin_ && i < begin_ + bytes_;
      if (!inside && host[i] != pattern) {
        places.push_back(static_cast<std::int64_t>(i) - static_cast<std::int64_t>(begin_));
      }
    }
    return places;
  }

 private:
  std::uint64_t begin_, bytes_;
  profiling::DeviceBuffer memory_;
};

}  // namespace reprolab
