// Checks that a wrong transpose is detected, by the harness and by the place check, and that a
// sound one passes.
#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/kernels/transpose/on_gpu.hpp"
#include "tests/text.hpp"

namespace reprolab::transpose {
namespace {

class OnGpuFaultyTranspose : public OnGpuTest {
 protected:
  /// `reason`: a regular expression; "": it is bit-exact.
  static void expect(const std::string& kernel, const std::string& matrix,
                     const std::string& reason, const std::string& data = "random", int sets = 3) {
    const auto problem = planned("transpose", "--matrix " + matrix, data).at(0);
    const auto verdict = Proof().verify(variant_named<Problem>(kernel), *problem.prepare(sets, 1));
    EXPECT_EQ(name(verdict.outcome), name(reason.empty() ? Outcome::bit_exact : Outcome::mismatch))
        << kernel << " on " << problem.facts.name;
    EXPECT_TRUE(matches(verdict.reason, reason)) << kernel;
  }
};

/// The first element of the data is -0.0, which a kernel that computes makes 0.0. If all values are
/// 1, a swap of two is not detected, but a missing write is.
TEST_F(OnGpuFaultyTranspose, AWrongOneIsAMismatchFromItsFirstElement) {
  // An output of 70 rows of 100 elements, with 4 between them.
  const std::string one = "100x70 --padding 4";
  const std::string first_at = " of 7000 elements differ; first at row ";
  const std::string bits = "0x[0-9a-f]{8} \\([-.0-9e]+\\)";
  for (const auto& matrix : {one, std::string("1x1"), std::string("333x1001")}) {
    expect("test_sound", matrix, "");
  }
  expect("test_swaps_two", one,
         "2" + first_at + "0, column 0 of the output: expected " + bits + ", actual " + bits);
  expect("test_swaps_two", one, "", "constant");
  expect("test_skips_last_column", one,
         "70" + first_at + "0, column 99 of the output: .*, actual 0xffffffff \\(-nan\\)");
  expect("test_writes_to_gap", one,
         "1" + first_at +
             "0, column 100 of the output, between two rows.*, actual 0x3f800000 \\(1\\)");
  expect("test_skips_tile", one, "1024" + first_at + "32, column 32 of the output: .*");
  expect("test_skips_tile", one, "1024" + first_at + "32, column 32 .*", "constant");
  expect("test_skips_tile", "32x32", "");
  expect("test_adds_zero", one,
         "1" + first_at +
             "0, column 0 of the output: expected 0x80000000 \\(-0\\), actual 0x00000000 \\(0\\)");
}

/// More than 2^31 elements.
TEST_F(OnGpuFaultyTranspose, MatricesTooLargeForAHostAreVerifiedOnTheDevice) {
  const std::string why = lacks_memory(std::uint64_t{27} << 30);
  if (!why.empty()) GTEST_SKIP() << why;
  expect("test_sound", "46352x46352", "", "random", 1);
  expect("test_skips_last_column", "46352x46352",
         "46352 of 2148507904 elements differ; first at row 0, column 46351 of .*", "random", 1);
}

/// The faults that the place check detects.
std::vector<Wrong> wrong_places(const std::string& kernel) {
  const Placement matrix = {.rows = 100, .columns = 70, .in_stride = 74, .out_stride = 104};
  ManyMatrices matrices(variant_named<Problem>(kernel), matrix.input_words(),
                        matrix.output_words());
  matrices.run(matrix);
  return matrices.wrong();
}

TEST_F(OnGpuFaultyTranspose, ThePlaceCheckDetectsEachFault) {
  const auto expect = [](const char* kernel, std::int64_t words, std::int64_t first) {
    const auto wrong = wrong_places(kernel);
    ASSERT_EQ(wrong.size(), 1u) << kernel;
    EXPECT_EQ(wrong[0].words, words) << kernel;
    EXPECT_EQ(wrong[0].first, first) << kernel;
  };
  EXPECT_TRUE(wrong_places("test_sound").empty());
  expect("test_swaps_two", 2, 0);
  expect("test_skips_last_column", 70, 99);
  expect("test_skips_tile", 1024, 32 * 104 + 32);
  expect("test_writes_to_gap", 1, 100);
  expect("test_writes_past_end", 1, 69 * 104 + 100);
  expect("test_writes_before", 1, -1);
  // One in 128 of the 32-bit patterns is a NaN, which a kernel that computes changes.
  ASSERT_EQ(wrong_places("test_adds_zero").size(), 1u);
  EXPECT_GT(wrong_places("test_adds_zero")[0].words, 20);
}

TEST(WordAt, AreDistinctAndDifferFromUntouchedMemory) {
  for (const Words words : {Words::any, Words::finite}) {
    std::vector<std::uint32_t> all;
    for (std::uint64_t i = 0; i < 1 << 20; ++i) all.push_back(word_at(words, i));
    const auto nans = std::ranges::count_if(
        all, [](std::uint32_t bits) { return !std::isfinite(std::bit_cast<float>(bits)); });
    EXPECT_EQ(nans > 4000, words == Words::any) << "one pattern in 128 is a NaN";
    EXPECT_TRUE(words == Words::any || nans == 0);
    std::ranges::sort(all);
    EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
    EXPECT_FALSE(std::ranges::binary_search(all, untouched));
  }
}

class OnGpuPlaceCheck : public OnGpuTest {};

TEST_F(OnGpuPlaceCheck, DetectsAWriteToTheInput) {
  const profiling::Stream stream;
  PlaceCheck check(Words::any, 1000, 1000, stream.get());
  float* const input = const_cast<float*>(check.problem(tight(10, 10)).input);
  profiling::check(cudaMemset(input + 77, 0, sizeof(float)), "planting a fault");
  EXPECT_EQ(check.changed_input_words(), 1);
}

}  // namespace
}  // namespace reprolab::transpose
