// Checks that a wrong product kernel is detected for the right reason, and that a sound one passes.
// tests/harness/nf4_product_data_test.cpp has the faults of sums, scales and biases.
#include "tests/kernels/nf4_product/testing.hpp"
#include "tests/text.hpp"

namespace reprolab::nf4_product {
namespace {

class OnGpuKernelFaultyProducts : public OnGpuTest {
 protected:
  static Verification verify(const std::string& kernel, InputData data, bool bias = false,
                             std::int64_t m = 7) {
    return Proof().verify(
        variant_named<Problem>("test_" + kernel),
        make_workload(
            {.weights = {.rows = 777, .columns = 4096}, .m = m, .bias = bias, .data = data}, 3));
  }
};

constexpr InputData all_data[] = {InputData::normal, InputData::sparse, InputData::one_hot};

TEST_F(OnGpuKernelFaultyProducts, ASoundOneIsWithinItsBoundWithoutFindings) {
  for (const InputData data : all_data) {
    for (const bool bias : {false, true}) {
      const Verification verdict = verify("sound", data, bias);
      EXPECT_EQ(name(verdict.outcome), "within_bound") << verdict.reason;
      for (const auto& [finding, number] : verdict.findings) EXPECT_EQ(number, 0) << finding;
      EXPECT_EQ(verdict.findings.size(), data == InputData::one_hot ? 3u : 1u);
    }
  }
  EXPECT_TRUE(verify("sound", InputData::normal, false, 1).findings.empty());
}

TEST_F(OnGpuKernelFaultyProducts, SumsThatDoNotRepeatBreakTheContract) {
  const Verification verdict = verify("does_not_repeat", InputData::normal, false, 100);
  EXPECT_EQ(name(verdict.outcome), "mismatch");
  EXPECT_TRUE(has_match(verdict.reason, "run [0-9]+ of 20 .*repeat"));
}

TEST_F(OnGpuKernelFaultyProducts, ARowThatDependsOnTheBatchBreaksItsContract) {
  const Verification verdict = verify("depends_on_batch", InputData::normal);
  EXPECT_EQ(name(verdict.outcome), "mismatch");
  EXPECT_TRUE(has_match(verdict.reason, "[1-7] of 7 rows .*batch"));
  EXPECT_GT(verdict.findings.at("rows_different_alone"), 0);
  VariantInfo honest = variant_named<Problem>("test_depends_on_batch");
  honest.contract.independent_of_batch = false;
  const Verification declared =
      Proof().verify(honest, make_workload({.weights = {.rows = 777, .columns = 4096}, .m = 7}));
  EXPECT_EQ(name(declared.outcome), "within_bound") << declared.reason;
  EXPECT_GT(declared.findings.at("rows_different_alone"), 0);
}

/// On normal rows they are within the bound.
TEST_F(OnGpuKernelFaultyProducts, OtherWeightsThanDeclaredShowOnOneHotRows) {
  const Verification wrong = verify("other_weights", InputData::one_hot);
  EXPECT_EQ(name(wrong.outcome), "mismatch");
  EXPECT_TRUE(contains(wrong.reason, " outputs lie outside their bound; first at row "));
  VariantInfo honest = variant_named<Problem>("test_other_weights");
  honest.contract.reading = "rounded_entries";
  const Verification verdict = Proof().verify(
      honest, make_workload(
                  {.weights = {.rows = 777, .columns = 4096}, .m = 7, .data = InputData::one_hot}));
  EXPECT_EQ(name(verdict.outcome), "within_bound") << verdict.reason;
  EXPECT_GT(verdict.findings.at("weights_different"), 777 * 4096 / 20);
  EXPECT_EQ(verdict.findings.at("weights_max_ulps"), 1);
}

TEST_F(OnGpuKernelFaultyProducts, AWritePastTheWorkspaceIsDetected) {
  try {
    verify("writes_past_workspace", InputData::normal);
    FAIL() << "not detected";
  } catch (const KernelCrashed& crashed) {
    EXPECT_TRUE(contains(crashed.what(), "memory"));
  }
}

}  // namespace
}  // namespace reprolab::nf4_product
