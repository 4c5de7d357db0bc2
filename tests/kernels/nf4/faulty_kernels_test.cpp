// Checks that a wrong kernel is detected, for the right reason, and that a sound one passes.
#include "tests/kernels/nf4/testing.hpp"
#include "tests/text.hpp"

namespace reprolab::nf4 {
namespace {

class OnGpuFaultyKernels : public OnGpuTest {
 protected:
  static Verification verify(const std::string& kernel, const Tensor& tensor) {
    return Proof().verify(variant_named<Problem>(kernel), tensor, 3);
  }

  /// `reason`: a regular expression.
  static void expect(const std::string& kernel, const Tensor& tensor, Outcome outcome,
                     const std::string& reason = "") {
    const Verification verdict = verify(kernel, tensor);
    EXPECT_EQ(name(verdict.outcome), name(outcome)) << kernel << ": " << verdict.reason;
    EXPECT_TRUE(matches(verdict.reason, reason)) << kernel;
  }
};

TEST_F(OnGpuFaultyKernels, ASoundOneIsBitExactAfterAnyOther) {
  // CUDA's message depends on its version.
  expect("test_too_many_threads", make_row(4096), Outcome::launch_failed,
         "launch: invalid .* \\(cudaErrorInvalid(Value|Configuration)\\)");
  for (const bool nested : {false, true}) {
    expect("test_sound", make_row(100003, 64, nested), Outcome::bit_exact);
  }
  const Tensor bf16 = make_row(1000, 64, false, reference::WeightType::bf16);
  expect("test_sound", bf16, Outcome::unsupported, "a test's kernel: fp16 only");
  expect("test_supports_nothing", make_row(1000), Outcome::unsupported,
         "a test's kernel: runs nothing");
}

TEST_F(OnGpuFaultyKernels, AMismatchNamesTheFirstWrongWeightAndItsBits) {
  const Tensor row = make_row(4096);
  // Swapped codes are detected at the first pair of different codes.
  std::size_t first = 0;
  while (row.expected[first] == row.expected[first ^ 1]) ++first;
  const std::string at = std::to_string(first);
  expect("test_swapped_nibbles", row, Outcome::mismatch,
         "[0-9]+ of 4096 weights differ(, by at most [0-9]+ ULPs?)?; first at index " + at +
             " \\(row 0, column " + at + "\\): block " + std::to_string(first / 64) + ", code " +
             std::to_string(
                 reference::code_at(row.quantized.codes, static_cast<std::int64_t>(first))) +
             " \\([-.0-9e]+\\), scale [-.0-9e]+, expected 0x[0-9a-f]+ \\([-.0-9e]+\\), "
             "actual 0x[0-9a-f]+ \\([-.0-9e]+\\), .*");
  expect("test_wrong_entry", row, Outcome::mismatch, ".*, code 5 \\(-0.18477343\\), scale .*");
  expect("test_missing_tail", make_row(2 * 1024 + 77), Outcome::mismatch,
         "77 of 2125 weights differ; first at index 2048 \\(row 0, column 2048\\): block 32, code "
         ".*actual 0xffff \\(-nan\\), not comparable in ULPs \\(NaN\\).*");
  expect("test_missing_tail", make_row(2048), Outcome::bit_exact);
}

/// Visible in about one of 80,000 outputs. Plain scales have no sum to fuse.
TEST_F(OnGpuFaultyKernels, AFusedMultiplyAddInTheScalesIsAMismatchOfLargeNestedTensors) {
  const Tensor tensor = make_tensor({.rows = 4096, .columns = 4096, .nested = true}, 1);
  const auto verdict = verify("test_fused_multiply_add", tensor);
  EXPECT_EQ(verdict.outcome, Outcome::mismatch);
  EXPECT_TRUE(contains(verdict.reason, " weights differ, by at most 1 ULP; first at "));
  EXPECT_GT(verdict.comparison.mismatches, 10);
  EXPECT_LT(verdict.comparison.mismatches, tensor.quantized.n / 1000);
  expect("test_fused_multiply_add", make_row(100003), Outcome::bit_exact);
}

/// The first weight of each block stays unwritten, in 16 blocks.
TEST_F(OnGpuFaultyKernels, OnlyTheDeclaredDeviationPasses) {
  const Tensor row = make_row(1000);
  const std::string first =
      "16 of 1000 weights differ; first at index 0 \\(row 0, column 0\\): block 0, code .*";
  expect("test_deviates", row, Outcome::deviation_as_declared, first);
  expect("test_does_not_deviate", row, Outcome::mismatch, "does not deviate as declared: " + first);
  expect("test_deviates_otherwise", row, Outcome::mismatch, "does not deviate as declared: .*");
  expect("test_undeclared_deviation", row, Outcome::mismatch, first);
}

TEST_F(OnGpuFaultyKernels, TheGuardsDetectAWritePastTheOutput) {
  for (const std::int64_t n : {64, 1025, 4097}) {
    EXPECT_EQ(writes_outside("test_writes_past_end", make_row(n)),
              (std::vector<std::int64_t>{2 * n, 2 * n + 1}));
    EXPECT_TRUE(writes_outside("test_sound", make_row(n)).empty());
  }
}

}  // namespace
}  // namespace reprolab::nf4
