// Checks what a mismatch of a wrong kernel says, and that the rarest one is found.
#include "tests/kernels/nf4/testing.hpp"
#include "tests/text.hpp"

namespace reprolab::nf4 {
namespace {

class OnGpuKernelFaults : public OnGpuTest {
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

TEST_F(OnGpuKernelFaults, AMismatchNamesTheFirstWrongWeightAndItsBits) {
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
TEST_F(OnGpuKernelFaults, AFusedMultiplyAddInTheScalesIsAMismatchOfLargeNestedTensors) {
  const Tensor tensor = make_tensor({.rows = 4096, .columns = 4096, .nested = true}, 1);
  const auto verdict = verify("test_fused_multiply_add", tensor);
  EXPECT_EQ(verdict.outcome, Outcome::mismatch);
  EXPECT_TRUE(contains(verdict.reason, " weights differ, by at most 1 ULP; first at "));
  EXPECT_GT(verdict.comparison.mismatches, 10);
  EXPECT_LT(verdict.comparison.mismatches, tensor.quantized.n / 1000);
  expect("test_fused_multiply_add", make_row(100003), Outcome::bit_exact);
}

}  // namespace
}  // namespace reprolab::nf4
