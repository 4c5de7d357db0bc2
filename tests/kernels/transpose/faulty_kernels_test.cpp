// Checks that a wrong transpose is caught, by the harness and by the place check, and gets no time,
// and that a sound one is not.
#include <map>

#include "harness/measure.hpp"
#include "tests/kernels/transpose/on_gpu.hpp"
#include "tests/text.hpp"

namespace reprolab::transpose {
namespace {

VariantInfo named(const std::string& kernel) {
  const auto all = registered_variants<Problem>();
  return *std::ranges::find(all, kernel, &VariantInfo::name);
}

/// An output of 70 rows of 100 elements, with 4 between them.
constexpr MatrixSpec spec{.rows = 100, .columns = 70, .padding = 4};

class OnGpuFaultyTranspose : public OnGpuTest {
 protected:
  static Verification verify(const std::string& kernel, const MatrixSpec& matrix = spec) {
    return Proof().verify(named(kernel), TransposeWorkload(matrix, 1, 3));
  }
};

TEST_F(OnGpuFaultyTranspose, ASoundOneIsBitExact) {
  for (const MatrixSpec& matrix :
       {spec, MatrixSpec{.rows = 1, .columns = 1}, MatrixSpec{.rows = 333, .columns = 1001}}) {
    const auto found = verify("test_sound", matrix);
    EXPECT_EQ(found.outcome, Outcome::bit_exact) << found.reason;
    EXPECT_EQ(found.reason, "");
  }
}

/// The first element of the data is -0.0, which a kernel that computes makes 0.0.
TEST_F(OnGpuFaultyTranspose, AWrongOneIsAMismatchFromItsFirstElement) {
  const std::string bits = "0x[0-9a-f]{8} \\([-.0-9e]+\\)";
  for (const auto& [kernel, reason] : std::map<std::string, std::string>{
           {"test_swaps_two",
            "2 of 7000 elements differ; first at row 0, column 0 of the output: "
            "expected " +
                bits + ", actual " + bits},
           {"test_skips_last_column",
            "70 of 7000 elements differ; first at row 0, column 99 of the "
            "output: .*, actual 0xffffffff \\(-nan\\)"},
           {"test_writes_to_gap",
            "1 of 7000 elements differ; first at row 0, column 100 of the "
            "output, between two rows.*, actual 0x3f800000 \\(1\\)"},
           {"test_leaves_out_tile",
            "1024 of 7000 elements differ; first at row 32, column 32 of the output: .*"},
           {"test_adds_zero",
            "1 of 7000 elements differ; first at row 0, column 0 of the output: "
            "expected 0x80000000 \\(-0\\), actual 0x00000000 \\(0\\)"}}) {
    const auto found = verify(kernel);
    EXPECT_EQ(found.outcome, Outcome::mismatch) << kernel;
    EXPECT_TRUE(matches(found.reason, reason));
  }
  EXPECT_EQ(verify("test_leaves_out_tile", {.rows = 32, .columns = 32}).outcome,
            Outcome::bit_exact);
}

/// If all values are 1, a swap of two is not detected, but a missing write is.
TEST_F(OnGpuFaultyTranspose, ConstantDataHideASwap) {
  MatrixSpec constant = spec;
  constant.data = Data::constant;
  EXPECT_EQ(verify("test_swaps_two", constant).outcome, Outcome::bit_exact);
  EXPECT_EQ(verify("test_leaves_out_tile", constant).outcome, Outcome::mismatch);
}

TEST_F(OnGpuFaultyTranspose, AMismatchGetsNoTimeAndWhatIsSoundDoes) {
  constexpr const char* faulty[] = {"test_swaps_two", "test_skips_last_column",
                                    "test_leaves_out_tile", "test_adds_zero", "test_writes_to_gap"};
  std::vector<VariantInfo> kernels{named("test_sound"), named("column_walk")};
  for (const char* kernel : faulty) kernels.push_back(named(kernel));
  Measurement measurement({}, profiling::make_instrument(profiling::InstrumentKind::events));
  const auto records = measurement.run(
      plan(spec), kernels, {.experiment = "test", .samples = 3, .batch_us = 50, .ceilings = false});
  ASSERT_EQ(records.size(), kernels.size());
  for (const Record& record : records) {
    const std::string& kernel = record.variant.name;
    const bool sound = std::ranges::find(faulty, kernel) == std::end(faulty);
    EXPECT_EQ(name(record.outcome), name(sound ? Outcome::bit_exact : Outcome::mismatch))
        << kernel << ": " << record.reason;
    EXPECT_EQ(record.metrics.size(), sound ? 1u : 0u) << kernel;
  }
}

/// The same faults, found by the place check.
std::vector<Wrong> wrong_places(const std::string& kernel) {
  const Placement matrix = {.rows = 100, .columns = 70, .in_stride = 74, .out_stride = 104};
  ManyMatrices matrices(named(kernel), matrix.input_words(), matrix.output_words());
  matrices.run(matrix);
  return matrices.wrong();
}

TEST_F(OnGpuFaultyTranspose, EachFaultIsFoundPlaceByPlace) {
  const auto expect = [](const char* kernel, std::int64_t words, std::int64_t first) {
    const auto found = wrong_places(kernel);
    ASSERT_EQ(found.size(), 1u) << kernel;
    EXPECT_EQ(found[0].words, words) << kernel;
    EXPECT_EQ(found[0].first, first) << kernel;
  };
  EXPECT_TRUE(wrong_places("test_sound").empty());
  expect("test_swaps_two", 2, 0);
  expect("test_skips_last_column", 70, 99);
  expect("test_leaves_out_tile", 1024, 32 * 104 + 32);
  expect("test_writes_to_gap", 1, 100);
  expect("test_writes_behind", 1, 69 * 104 + 100);
  expect("test_writes_before", 1, -1);
  // One in 128 of the 32-bit patterns is a NaN, which a kernel that computes changes.
  ASSERT_EQ(wrong_places("test_adds_zero").size(), 1u);
  EXPECT_GT(wrong_places("test_adds_zero")[0].words, 20);
}

}  // namespace
}  // namespace reprolab::transpose
