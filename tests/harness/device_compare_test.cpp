#include "harness/device_compare.hpp"

#include <numeric>

#include "tests/kernels/nf4/testing.hpp"
#include "tests/message_of.hpp"

namespace reprolab {
namespace {

class OnGpuDeviceComparison : public OnGpuTest {};

template <class Bits>
profiling::DeviceBuffer uploaded(const std::vector<Bits>& values) {
  profiling::DeviceBuffer buffer(values.size() * sizeof(Bits));
  profiling::check(cudaMemcpy(buffer.data(), values.data(), buffer.bytes(), cudaMemcpyHostToDevice),
                   "copying to the GPU");
  return buffer;
}

/// Counts around one load of a thread, one thread, one block, the largest grid, and a second
/// iteration of its loop, with odd ones among them.
constexpr std::int64_t counts[] = {
    1, 2, 3, 7, 8, 9, 1001, 256 * 8, 256 * 8 + 1, 2048 * 1024, 2048 * 1024 + 3, 2048 * 2048 + 5};

template <class Bits>
void expect_faults_found(const DeviceComparison& comparison) {
  for (const std::int64_t count : counts) {
    std::vector<Bits> values(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), Bits{1});
    const profiling::DeviceBuffer expected = uploaded(values), actual = uploaded(values);
    const auto compare = [&] {
      return comparison.compare(expected.data(), actual.data(), count, sizeof(Bits));
    };
    EXPECT_TRUE(compare().equal()) << count;
    EXPECT_EQ(compare().first_mismatch, -1);
    for (const std::int64_t at : {std::int64_t{0}, count / 2, count - 1}) {
      for (int bit = 0; bit < static_cast<int>(8 * sizeof(Bits)); bit += 5) {
        const auto flipped = static_cast<Bits>(values[at] ^ (Bits{1} << bit));
        cudaMemcpy(actual.as<Bits>() + at, &flipped, sizeof(Bits), cudaMemcpyHostToDevice);
        const auto found = compare();
        EXPECT_EQ(found.mismatches, 1) << "bit " << bit << " of " << at << " of " << count;
        EXPECT_EQ(found.first_mismatch, at) << "bit " << bit << " of " << count;
        cudaMemcpy(actual.as<Bits>() + at, &values[at], sizeof(Bits), cudaMemcpyHostToDevice);
      }
    }
    EXPECT_TRUE(compare().equal()) << count;
  }
}

TEST_F(OnGpuDeviceComparison, FindsOneFlippedBitFirstMiddleAndLast) {
  const profiling::Stream stream;
  const DeviceComparison comparison(stream.get());  // its constructor tests it
  expect_faults_found<std::uint16_t>(comparison);
  expect_faults_found<std::uint32_t>(comparison);
}

/// Bits of every kind of number, each against each, one pair at a time and all together.
template <class Bits>
void expect_the_hosts_answer(const DeviceComparison& comparison, const std::vector<Bits>& kinds) {
  std::vector<Bits> expected, actual;
  for (const Bits a : kinds) {
    for (const Bits b : kinds) {
      expected.push_back(a);
      actual.push_back(b);
    }
  }
  const profiling::DeviceBuffer on_device_expected = uploaded(expected),
                                on_device_actual = uploaded(actual);
  const auto expect_same = [&](std::size_t begin, std::size_t count) {
    const std::span<const Bits> a(expected), b(actual);
    const auto host = reference::compare_bits(a.subspan(begin, count), b.subspan(begin, count));
    const auto device = comparison.compare(on_device_expected.as<Bits>() + begin,
                                           on_device_actual.as<Bits>() + begin,
                                           static_cast<std::int64_t>(count), sizeof(Bits));
    EXPECT_EQ(device.mismatches, host.mismatches) << begin;
    EXPECT_EQ(device.first_mismatch, host.first_mismatch) << begin;
    EXPECT_EQ(device.max_ulps, host.max_ulps) << begin;
  };
  for (std::size_t pair = 0; pair < expected.size(); ++pair) expect_same(pair, 1);
  expect_same(0, expected.size());
}

TEST_F(OnGpuDeviceComparison, GivesTheDistancesOfTheHost) {
  const profiling::Stream stream;
  const DeviceComparison comparison(stream.get());
  expect_the_hosts_answer<std::uint16_t>(
      comparison, {0, 0x8000, 1, 0x8001, 0x3ff, 0x400, 0x3c00, 0xbc01, 0x7bff, 0x7c00, 0xfc00,
                   0x7c01, 0x7f7f, 0x7f80, 0x7fff, 0xffff});
  expect_the_hosts_answer<std::uint32_t>(
      comparison, {0, 0x80000000, 1, 0x80000001, 0x7fffff, 0x800000, 0x3f800000, 0xbf800001,
                   0x7f7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0x7fffffff, 0xffffffff});
}

/// If an array does not begin at a multiple of 16 bytes, elements are compared one by one.
TEST_F(OnGpuDeviceComparison, ArraysMayBeginAnywhere) {
  const profiling::Stream stream;
  const DeviceComparison comparison(stream.get());
  std::vector<std::uint16_t> values(1000);
  std::iota(values.begin(), values.end(), std::uint16_t{1});
  const auto expected = uploaded(values);
  for (int skipped = 0; skipped < 9; ++skipped) {
    const std::vector<std::uint16_t> rest(values.begin() + skipped, values.end());
    auto shifted = rest;
    const auto compare = [&] {
      return comparison.compare(expected.as<std::uint16_t>() + skipped, uploaded(shifted).data(),
                                std::ssize(rest), 2);
    };
    EXPECT_TRUE(compare().equal()) << skipped;
    shifted[500] ^= 1;
    EXPECT_EQ(compare().first_mismatch, 500) << skipped;
  }
}

TEST_F(OnGpuDeviceComparison, ASpotCheckLooksAtPlacesAllOverAndAtTheEnd) {
  const profiling::Stream stream;
  const DeviceComparison comparison(stream.get());
  for (const std::int64_t count : counts) {
    const std::vector<std::uint16_t> values(static_cast<std::size_t>(count), 7);
    const auto expected = uploaded(values);
    const auto mismatches = [&](std::int64_t first_wrong) {
      auto changed = values;
      std::fill(changed.begin() + first_wrong, changed.end(), std::uint16_t{8});
      const auto actual = uploaded(changed);
      comparison.enqueue_spot_check(expected.data(), actual.data(), count, 2);
      return comparison.collect().mismatches;
    };
    EXPECT_EQ(mismatches(count), 0) << count;
    EXPECT_EQ(mismatches(count - 1), 1) << count;
    EXPECT_GE(mismatches(0), std::min<std::int64_t>(count, 8 * 8000)) << count;
    EXPECT_LE(mismatches(0), 8 * 16385) << count;
    EXPECT_NEAR(mismatches(count / 2), mismatches(0) / 2.0, 16) << count;
  }
}

TEST_F(OnGpuDeviceComparison, AgainstNothingCountsWhatIsNotPoison) {
  const profiling::Stream stream;
  const DeviceComparison comparison(stream.get());
  for (const int bytes : {2, 4}) {
    std::vector<std::uint16_t> values(2000, 0xffff);
    EXPECT_TRUE(comparison.compare(nullptr, uploaded(values).data(), 4000 / bytes, bytes).equal());
    values[1500] = 0xfffe;
    const auto found = comparison.compare(nullptr, uploaded(values).data(), 4000 / bytes, bytes);
    EXPECT_EQ(found.mismatches, 1);
    EXPECT_EQ(found.first_mismatch, 3000 / bytes);
  }
}

TEST_F(OnGpuDeviceComparison, WhatIsEnqueuedAddsUpUntilItIsCollected) {
  const profiling::Stream stream;
  const DeviceComparison comparison(stream.get());
  const auto a = uploaded(std::vector<std::uint16_t>{1, 2, 3, 4}),
             b = uploaded(std::vector<std::uint16_t>{1, 9, 3, 9}),
             c = uploaded(std::vector<std::uint16_t>{9, 2, 3, 4});
  comparison.enqueue(a.data(), b.data(), 4, 2);
  comparison.enqueue(a.data(), a.data(), 4, 2);
  comparison.enqueue(a.data(), c.data(), 4, 2);
  const auto found = comparison.collect();
  EXPECT_EQ(found.mismatches, 3);
  EXPECT_EQ(found.first_mismatch, 0);
  EXPECT_EQ(found.max_ulps, 8u);
  EXPECT_TRUE(comparison.collect().equal());
}

TEST_F(OnGpuDeviceComparison, OtherElementsAreAnError) {
  const profiling::Stream stream;
  const DeviceComparison comparison(stream.get());
  const auto one = uploaded(std::vector<std::uint64_t>{1});
  EXPECT_EQ(
      message_of<std::invalid_argument>([&] { comparison.compare(one.data(), one.data(), 1, 8); }),
      "compare: elements of 2 or 4 bytes only");
}

}  // namespace
}  // namespace reprolab
