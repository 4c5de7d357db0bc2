// The summary of verify over all tensors, and its progress.
#include "programs/verify/summary.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/progress.hpp"

namespace reprolab::verify {
namespace {

Note compared(std::string_view subject, Outcome outcome = Outcome::bit_exact) {
  return {std::string(subject), outcome, ""};
}

TEST(Summary, SaysWithWhatEachTensorWasCompared) {
  const Note nothing_stored{std::string(reference_subject), Outcome::not_verified, "nothing"};
  Summary summary;
  summary.add_tensor(
      {compared("reference"), compared("quantizer"), compared("k1"), compared("k2")});
  summary.add_tensor({nothing_stored, compared("k1"), compared("k2", Outcome::unsupported)});
  summary.add_tensor({nothing_stored, compared("k1", Outcome::mismatch)});
  summary.add_tensor({nothing_stored, compared("k1", Outcome::launch_failed)});
  EXPECT_EQ(summary.coverage({{"FP4", 2}, {"BF16", 5}}),
            "checked: 3 of 11 tensors: 1 with stored outputs, 1 with what was quantized, 3 with "
            "kernels\n"
            "not checked: 1 tensor of NF4, dequantized by the reference with nothing to compare "
            "with, which proves nothing\n"
            "not checked: 2 tensors of FP4, 5 of BF16\n");
}

TEST(Summary, WithoutAnyComparisonNothingIsProved) {
  Summary summary;
  EXPECT_EQ(summary.status(), exit_not_measured);
  summary.add_tensor({compared("k1", Outcome::unsupported), compared("k2", Outcome::not_verified)});
  EXPECT_TRUE(summary.proves_nothing());
  EXPECT_EQ(summary.status(), exit_not_measured);
  summary.add_tensor({compared("k1")});
  EXPECT_FALSE(summary.proves_nothing());
  EXPECT_EQ(summary.status(), exit_verified);
}

/// In any order, in one tensor or in several, the worst outcome decides.
TEST(Summary, AFailureIsNeverOverridden) {
  std::vector<Outcome> outcomes = {Outcome::bit_exact, Outcome::mismatch, Outcome::not_measured};
  do {
    Summary several;
    std::vector<Note> notes;
    ExitStatus worst = exit_verified;
    for (const Outcome outcome : outcomes) {
      notes.push_back(compared("k", outcome));
      several.add_tensor({notes.back()});
      if (outcome == Outcome::mismatch) worst = exit_wrong_output;
      if (outcome == Outcome::not_measured && worst == exit_verified) worst = exit_not_measured;
      EXPECT_EQ(several.status(), worst);
    }
    Summary one;
    one.add_tensor(notes);
    EXPECT_EQ(one.status(), exit_wrong_output);
  } while (std::ranges::next_permutation(outcomes).found);
}

TEST(Summary, ReasonsOfADriverStayOnTheirLine) {
  Summary summary;
  summary.add_tensor({{"peer\n", Outcome::unsupported, "no\x1b[2J\nk  bit_exact 9"}});
  EXPECT_EQ(summary.outcomes(), "  peer\\x0a  unsupported 1 (no\\x1b[2J\\x0ak  bit_exact 9)\n");
}

TEST(Progress, SaysEachTenthOnceWhereThereIsNoTerminal) {
  testing::internal::CaptureStderr();
  Progress progress("verify", 100, "100 B", true);
  for (int i = 0; i < 5; ++i) progress.advance(5);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "verify: 10 % done\nverify: 20 % done\n");
}

}  // namespace
}  // namespace reprolab::verify
