#include "experiments/harness/device_compare.hpp"

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

/// One thread, one block, the largest grid, and a second turn of its loop: each with odd counts.
constexpr std::int64_t counts[] = {1, 2, 3, 255, 256, 257, 1001, 2048 * 256, 2048 * 256 + 3};

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
  const DeviceComparison comparison(stream.get());  // its constructor proves itself
  expect_faults_found<std::uint16_t>(comparison);
  expect_faults_found<std::uint32_t>(comparison);
}

TEST_F(OnGpuDeviceComparison, CountsThemAllAndTellsTheFirst) {
  const profiling::Stream stream;
  const DeviceComparison comparison(stream.get());
  std::vector<std::uint16_t> values(5'000'001, 7);
  const auto expected = uploaded(values);
  for (std::size_t at = 1234; at < values.size(); at += 1001) values[at] = 8;
  const auto changed = std::ranges::count(values, 8);
  const auto actual = uploaded(values);
  const auto found = comparison.compare(expected.data(), actual.data(), 5'000'001, 2);
  EXPECT_EQ(found.mismatches, changed);
  EXPECT_EQ(found.first_mismatch, 1234);
}

TEST_F(OnGpuDeviceComparison, ComparesBitsNotNumbers) {
  const profiling::Stream stream;
  const DeviceComparison comparison(stream.get());
  const auto nan = uploaded(std::vector<std::uint16_t>{0x7fff, 0x7fff});
  const auto other_nan = uploaded(std::vector<std::uint16_t>{0x7fff, 0x7e00});
  EXPECT_TRUE(comparison.compare(nan.data(), nan.data(), 2, 2).equal());
  EXPECT_EQ(comparison.compare(nan.data(), other_nan.data(), 2, 2).first_mismatch, 1);
  const auto zero = uploaded(std::vector<std::uint16_t>{0x0000});
  const auto negative_zero = uploaded(std::vector<std::uint16_t>{0x8000});
  EXPECT_EQ(comparison.compare(zero.data(), negative_zero.data(), 1, 2).mismatches, 1);
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
