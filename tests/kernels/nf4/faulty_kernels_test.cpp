// Checks that a wrong kernel is caught, for the right reason, and that a sound one is not.
#include <map>

#include "tests/kernels/nf4/on_gpu.hpp"
#include "tests/text.hpp"

namespace reprolab::nf4 {
namespace {

class OnGpuFaultyKernels : public OnGpuTest {
 protected:
  void SetUp() override {
    OnGpuTest::SetUp();
    if (!IsSkipped()) proof_ = std::make_unique<Proof>();
  }

  Verification verify(const std::string& kernel, const Tensor& tensor, int buffer_sets = 1) const {
    const auto all = registered_kernels();
    return proof_->verify(*std::ranges::find(all, kernel, &VariantInfo::name), tensor, buffer_sets);
  }

  std::unique_ptr<Proof> proof_;
};

/// "N of M weights differ, by at most ...; first at index ... block ... code ... expected 0x....
/// actual 0x....", by how much where that is told.
constexpr const char* full_reason =
    "[0-9]+ of [0-9]+ weights differ(, by at most [0-9]+ ULPs?)?; first at index [0-9]+ \\(row "
    "[0-9]+, column [0-9]+\\): block [0-9]+, code [0-9]+ \\([-.0-9e]+\\), scale [-.0-9e]+, "
    "expected 0x[0-9a-f]+ \\([-.0-9e]+\\), "
    "actual 0x[0-9a-f]+ \\([-.0-9e]+\\), .*";

TEST_F(OnGpuFaultyKernels, ASoundOneIsBitExact) {
  for (const bool nested : {false, true}) {
    const auto found = verify("test_sound", make_row(100003, 64, nested), 3);
    EXPECT_EQ(found.outcome, Outcome::bit_exact) << found.reason;
    EXPECT_EQ(found.reason, "");
  }
}

TEST_F(OnGpuFaultyKernels, SwappedNibblesAreAMismatch) {
  const Tensor tensor = make_row(1024);
  const auto found = verify("test_swapped_nibbles", tensor);
  EXPECT_EQ(found.outcome, Outcome::mismatch);
  EXPECT_TRUE(matches(found.reason, full_reason));
  // The first pair of different codes decides where the first mismatch is.
  std::int64_t first = 0;
  while (tensor.expected[first] == tensor.expected[first ^ 1]) ++first;
  EXPECT_EQ(found.found.first_mismatch, first);
  EXPECT_TRUE(contains(
      found.reason, "index " + std::to_string(first) + " (row 0, column " + std::to_string(first) +
                        "): block " + std::to_string(first / 64) + ", code " +
                        std::to_string(reference::code_at(tensor.quantized.codes, first)) + " "));
}

/// Visible in about one of 80,000 outputs.
TEST_F(OnGpuFaultyKernels, AFusedMultiplyAddInTheScalesIsAMismatchOfLargeNestedTensors) {
  const Tensor tensor = make_tensor({.rows = 4096, .columns = 4096, .nested = true}, 1);
  const auto found = verify("test_fused_multiply_add", tensor);
  EXPECT_EQ(found.outcome, Outcome::mismatch);
  EXPECT_TRUE(matches(found.reason, full_reason));
  EXPECT_TRUE(contains(found.reason, " weights differ, by at most 1 ULP; first at "));
  EXPECT_GT(found.found.mismatches, 10);
  EXPECT_LT(found.found.mismatches, tensor.quantized.n / 1000);
  EXPECT_EQ(verify("test_fused_multiply_add", make_row(100003)).outcome, Outcome::bit_exact)
      << "plain scales have no sum to fuse";
}

TEST_F(OnGpuFaultyKernels, OneWrongTableEntryIsAMismatchOfThatCode) {
  const auto found = verify("test_wrong_entry", make_row(4096));
  EXPECT_EQ(found.outcome, Outcome::mismatch);
  EXPECT_TRUE(matches(found.reason, full_reason));
  EXPECT_TRUE(contains(found.reason, ", code 5 (-0.18477343), scale "));
}

TEST_F(OnGpuFaultyKernels, AnUnwrittenTailIsAMismatchFromItsFirstWeight) {
  const auto found = verify("test_missing_tail", make_row(2 * 1024 + 77));
  EXPECT_EQ(found.outcome, Outcome::mismatch);
  EXPECT_TRUE(begins(found.reason,
                     "77 of 2125 weights differ; first at index 2048 (row 0, "
                     "column 2048): block 32, code "));
  EXPECT_TRUE(contains(found.reason, "actual 0xffff (-nan), not comparable in ULPs (NaN)"));
  EXPECT_EQ(verify("test_missing_tail", make_row(2048)).outcome, Outcome::bit_exact);
}

TEST_F(OnGpuFaultyKernels, AWriteBehindTheOutputIsSeenByTheGuards) {
  for (const std::int64_t n : {64, 1025, 4097}) {
    EXPECT_EQ(writes_outside("test_writes_behind", make_row(n)),
              (std::vector<std::int64_t>{2 * n, 2 * n + 1}));
    EXPECT_TRUE(writes_outside("test_sound", make_row(n)).empty());
  }
}

TEST_F(OnGpuFaultyKernels, TooManyThreadsAreALaunchFailureAndSpoilNothing) {
  const auto found = verify("test_too_many_threads", make_row(4096));
  EXPECT_EQ(found.outcome, Outcome::launch_failed);
  // Which of CUDA's messages it is depends on the CUDA version.
  EXPECT_TRUE(
      matches(found.reason, "launch: invalid .* \\(cudaErrorInvalid(Value|Configuration)\\)"));
  EXPECT_EQ(verify("test_sound", make_row(4096)).outcome, Outcome::bit_exact);
}

/// The first weight of each block stays unwritten, in 16 blocks.
TEST_F(OnGpuFaultyKernels, OnlyTheDeclaredDeviationIsNoMismatch) {
  const std::string first =
      "16 of 1000 weights differ; first at index 0 \\(row 0, column 0\\): block 0, code .*";
  for (const auto& [kernel, reason] : std::map<std::string, std::string>{
           {"test_deviates", first},
           {"test_deviates_not", "does not deviate as declared: " + first},
           {"test_deviates_otherwise", "does not deviate as declared: .*"},
           {"test_undeclared_deviation", first}}) {
    const auto found = verify(kernel, make_row(1000), 3);
    EXPECT_EQ(name(found.outcome),
              kernel == "test_deviates" ? "deviation_as_declared" : "mismatch");
    EXPECT_TRUE(matches(found.reason, reason));
  }
}

TEST_F(OnGpuFaultyKernels, AnUnsupportedProblemIsNotRunAndSaysWhy) {
  const auto found = verify("test_supports_nothing", make_row(1000));
  EXPECT_EQ(found.outcome, Outcome::unsupported);
  EXPECT_EQ(found.reason, "a test's kernel: runs nothing");
  const auto bf16 = verify("test_sound", make_row(1000, 64, false, reference::WeightType::bf16));
  EXPECT_EQ(bf16.outcome, Outcome::unsupported);
}

/// In a separate process, because a kernel that traps destroys the CUDA context.
TEST_F(OnGpuFaultyKernels, AKernelThatTrapsCrashesWithTheReason) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto verify_trap = [this] {
    try {
      verify("test_trap", make_row(1000));
    } catch (const KernelCrashed& crashed) {
      std::fprintf(stderr, "%s\n", crashed.what());
      std::_Exit(3);
    }
  };
  EXPECT_EXIT(verify_trap(), testing::ExitedWithCode(3), "kernel: .* \\(cudaError[A-Za-z]*\\)");
}

}  // namespace
}  // namespace reprolab::nf4
