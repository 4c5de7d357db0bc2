// Checks that a wrong product kernel is detected by the right data, for the right reason, and that
// a sound one passes.
#include "tests/kernels/nf4_product/testing.hpp"
#include "tests/text.hpp"

namespace reprolab::nf4_product {
namespace {

class OnGpuFaultyProducts : public OnGpuTest {
 protected:
  static Verification verify(const std::string& kernel, InputData data, bool bias = false,
                             std::int64_t m = 7) {
    return Proof().verify(
        variant_named<Problem>("test_" + kernel),
        make_workload(
            {.weights = {.rows = 777, .columns = 4096}, .m = m, .bias = bias, .data = data}, 3));
  }

  static void expect_outside(const std::string& kernel, InputData data, bool bias = false) {
    const Verification found = verify(kernel, data, bias);
    EXPECT_EQ(name(found.outcome), "mismatch") << kernel;
    EXPECT_TRUE(contains(found.reason, " outputs lie outside their bound; first at row "))
        << kernel << ": " << found.reason;
  }
};

constexpr InputData all_data[] = {InputData::normal, InputData::sparse, InputData::one_hot};

TEST_F(OnGpuFaultyProducts, ASoundOneIsWithinItsBoundAndFindsNothing) {
  for (const InputData data : all_data) {
    for (const bool bias : {false, true}) {
      const Verification found = verify("sound", data, bias);
      EXPECT_EQ(name(found.outcome), "within_bound") << found.reason;
      for (const auto& [finding, number] : found.findings) EXPECT_EQ(number, 0) << finding;
      EXPECT_EQ(found.findings.size(), data == InputData::one_hot ? 3u : 1u);
    }
  }
  EXPECT_TRUE(verify("sound", InputData::normal, false, 1).findings.empty());
}

TEST_F(OnGpuFaultyProducts, ADroppedStepAWrongScaleAndSumsIn16BitsShowOnSparseRows) {
  for (const char* kernel : {"dropped_step", "wrong_scale", "sums_in_16_bits"}) {
    expect_outside(kernel, InputData::sparse);
  }
}

TEST_F(OnGpuFaultyProducts, ABiasAddedTwiceShowsOnAnyRows) {
  for (const InputData data : all_data) expect_outside("bias_twice", data, true);
}

TEST_F(OnGpuFaultyProducts, ARaceInTheReductionShowsOnAnyRowsWithManyInputs) {
  for (const InputData data : {InputData::normal, InputData::sparse}) {
    EXPECT_EQ(name(verify("race", data).outcome), "mismatch");
  }
}

TEST_F(OnGpuFaultyProducts, SumsThatDoNotRepeatBreakTheContract) {
  const Verification found = verify("does_not_repeat", InputData::normal, false, 100);
  EXPECT_EQ(name(found.outcome), "mismatch");
  EXPECT_TRUE(matches(found.reason,
                      "run [0-9]+ of 20 on the same data wrote other bits than the "
                      "first: a sum has to repeat"))
      << found.reason;
}

TEST_F(OnGpuFaultyProducts, ARowThatDependsOnTheBatchBreaksItsContract) {
  const Verification found = verify("depends_on_batch", InputData::normal);
  EXPECT_EQ(name(found.outcome), "mismatch");
  EXPECT_TRUE(matches(found.reason,
                      "[1-7] of 7 rows differ from the same row alone, but it is "
                      "declared independent of the batch"))
      << found.reason;
  EXPECT_GT(found.findings.at("rows_different_alone"), 0);
  VariantInfo honest = variant_named<Problem>("test_depends_on_batch");
  honest.promise.independent_of_batch = false;
  const Verification declared =
      Proof().verify(honest, make_workload({.weights = {.rows = 777, .columns = 4096}, .m = 7}));
  EXPECT_EQ(name(declared.outcome), "within_bound") << declared.reason;
  EXPECT_GT(declared.findings.at("rows_different_alone"), 0);
}

/// On normal rows they are within the bound.
TEST_F(OnGpuFaultyProducts, OtherWeightsThanDeclaredShowOnOneHotRows) {
  expect_outside("other_weights", InputData::one_hot);
  VariantInfo honest = variant_named<Problem>("test_other_weights");
  honest.promise.reading = "rounded_entries";
  const Verification found = Proof().verify(
      honest, make_workload(
                  {.weights = {.rows = 777, .columns = 4096}, .m = 7, .data = InputData::one_hot}));
  EXPECT_EQ(name(found.outcome), "within_bound") << found.reason;
  EXPECT_GT(found.findings.at("weights_different"), 777 * 4096 / 20);
  EXPECT_EQ(found.findings.at("weights_max_ulps"), 1);
}

TEST_F(OnGpuFaultyProducts, AWriteBehindTheWorkspaceIsSeen) {
  try {
    verify("writes_behind_workspace", InputData::normal);
    FAIL() << "nobody noticed";
  } catch (const KernelCrashed& crashed) {
    EXPECT_STREQ(crashed.what(), "changed memory that is not its output");
  }
}

TEST_F(OnGpuFaultyProducts, AnUnsupportedProblemIsNotRunAndSaysWhy) {
  const auto found = Proof().verify(
      variant_named<Problem>("test_sound"),
      make_workload({.weights = {.rows = 64, .columns = 64, .nested = true}, .m = 1}));
  EXPECT_EQ(name(found.outcome), "unsupported");
  EXPECT_EQ(found.reason, "a test's kernel: fp16, plain scales");
}

}  // namespace
}  // namespace reprolab::nf4_product
