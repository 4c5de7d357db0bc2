#include "harness/device_compare.hpp"

#include <numeric>

#include "tests/on_gpu.hpp"

namespace reprolab {
namespace {

class OnGpuDeviceComparison : public OnGpuTest {
 protected:
  void SetUp() override {
    OnGpuTest::SetUp();
    if (!IsSkipped()) comparison_.emplace(nullptr);  // its constructor plants faults of all kinds
  }

  std::optional<DeviceComparison> comparison_;
};

template <class Bits>
profiling::DeviceBuffer uploaded(const std::vector<Bits>& values) {
  profiling::DeviceBuffer buffer(values.size() * sizeof(Bits));
  profiling::check(cudaMemcpy(buffer.data(), values.data(), buffer.bytes(), cudaMemcpyHostToDevice),
                   "copying to the GPU");
  return buffer;
}

/// Counts around one load of a thread, one thread, one block, the largest grid, and a second
/// iteration of its loop, with odd ones among them; arrays that do not begin at a multiple of 16
/// bytes are compared element by element.
constexpr std::int64_t counts[] = {
    1, 2, 3, 7, 8, 9, 1001, 256 * 8, 256 * 8 + 1, 2048 * 1024, 2048 * 1024 + 3, 2048 * 2048 + 5};

TEST_F(OnGpuDeviceComparison, FindsOneChangedElementWhereverItIsAndTheArraysBegin) {
  for (const std::int64_t count : counts) {
    std::vector<std::uint16_t> values(static_cast<std::size_t>(count) + 8);
    std::iota(values.begin(), values.end(), std::uint16_t{1});
    const profiling::DeviceBuffer expected = uploaded(values);
    for (const std::int64_t skipped : {0, 1, 8}) {
      for (const std::int64_t at : {std::int64_t{0}, count / 2, count - 1, count}) {
        auto changed = values;
        changed[static_cast<std::size_t>(skipped + at)] ^= 0x20;
        const auto actual = uploaded(changed);
        const auto found = comparison_->compare(expected.as<std::uint16_t>() + skipped,
                                                actual.as<std::uint16_t>() + skipped, count, 2);
        EXPECT_EQ(found.mismatches, at < count) << at << " of " << count << " from " << skipped;
        EXPECT_EQ(found.first_mismatch, at < count ? at : -1) << at << " of " << count;
      }
    }
  }
}

TEST_F(OnGpuDeviceComparison, ASpotCheckLooksAtPlacesAllOverAndAtTheEnd) {
  for (const std::int64_t count : counts) {
    const std::vector<std::uint16_t> values(static_cast<std::size_t>(count), 7);
    const auto expected = uploaded(values);
    const auto mismatches = [&](std::int64_t first_wrong) {
      auto changed = values;
      std::fill(changed.begin() + first_wrong, changed.end(), std::uint16_t{8});
      const auto actual = uploaded(changed);
      comparison_->enqueue_spot_check(expected.data(), actual.data(), count, 2);
      return comparison_->collect().mismatches;
    };
    EXPECT_EQ(mismatches(count), 0) << count;
    EXPECT_EQ(mismatches(count - 1), 1) << count;
    EXPECT_GE(mismatches(0), std::min<std::int64_t>(count, 8 * 8000)) << count;
    EXPECT_LE(mismatches(0), 8 * 16385) << count;
    EXPECT_NEAR(mismatches(count / 2), mismatches(0) / 2.0, 16) << count;
  }
}

TEST_F(OnGpuDeviceComparison, WhatIsEnqueuedAddsUpUntilItIsCollected) {
  const auto a = uploaded(std::vector<std::uint16_t>{1, 2, 3, 4}),
             b = uploaded(std::vector<std::uint16_t>{1, 9, 3, 9}),
             c = uploaded(std::vector<std::uint16_t>{9, 2, 3, 4});
  comparison_->enqueue(a.data(), b.data(), 4, 2);
  comparison_->enqueue(a.data(), a.data(), 4, 2);
  comparison_->enqueue(a.data(), c.data(), 4, 2);
  const auto found = comparison_->collect();
  EXPECT_EQ(found.mismatches, 3);
  EXPECT_EQ(found.first_mismatch, 0);
  EXPECT_EQ(found.max_ulps, 8u);
  EXPECT_TRUE(comparison_->collect().equal());
}

}  // namespace
}  // namespace reprolab
