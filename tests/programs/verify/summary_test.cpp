#include "programs/verify/summary.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace reprolab::verify {
namespace {

Note compared(std::string_view subject, Outcome outcome = Outcome::bit_exact) {
  return {std::string(subject), outcome, ""};
}

const Note nothing_stored{std::string(reference_subject), Outcome::not_verified, "nothing stored"};

TEST(Coverage, SaysWithWhatEachTensorWasCompared) {
  Summary summary;
  summary.add_tensor(
      {compared("reference"), compared("quantizer"), compared("k1"), compared("k2")});
  summary.add_tensor({nothing_stored, compared("k1"), compared("k2", Outcome::unsupported)});
  summary.add_tensor({nothing_stored, compared("k1", Outcome::mismatch)});
  EXPECT_EQ(summary.coverage({{"FP4", 2}, {"BF16", 5}}),
            "checked: 3 of 10 tensors: 1 with stored outputs, 1 with what was quantized, 3 with "
            "kernels\n"
            "not checked: 2 tensors of FP4, 5 of BF16\n");
  EXPECT_EQ(summary.status(), exit_wrong_output);
}

TEST(Coverage, WhatTheReferenceAloneDequantizedIsNotChecked) {
  Summary summary;
  summary.add_tensor({nothing_stored, compared("k", Outcome::unsupported)});
  EXPECT_EQ(summary.coverage({}),
            "checked: 0 of 1 tensor\n"
            "not checked: 1 tensor of NF4, dequantized by the reference with nothing to compare "
            "with, which proves nothing\n");
  EXPECT_EQ(summary.status(), exit_verified);
}

TEST(Coverage, AKernelThatFailsComparesNothing) {
  Summary summary;
  summary.add_tensor({nothing_stored, compared("k", Outcome::launch_failed)});
  EXPECT_TRUE(summary.coverage({}).starts_with("checked: 0 of 1 tensor\n"));
  EXPECT_EQ(summary.status(), exit_wrong_output);
}

TEST(Status, ATensorThatTheHarnessLostIsNoWrongOutput) {
  Summary summary;
  summary.add_tensor({compared("reference"), compared("k", Outcome::not_measured)});
  EXPECT_EQ(summary.status(), exit_not_measured);
  summary.add_tensor({compared("reference"), compared("k", Outcome::mismatch)});
  EXPECT_EQ(summary.status(), exit_wrong_output);
}

/// In whatever order they come, in one tensor or in several, the worst decides.
TEST(Status, NothingThatFollowsUndoesAFailure) {
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

TEST(Outcomes, ReasonsOfADriverStayOnTheirLine) {
  Summary summary;
  summary.add_tensor({{"peer\n", Outcome::unsupported, "no\x1b[2J\nk  bit_exact 9"}});
  EXPECT_EQ(summary.outcomes(), "  peer\\x0a  unsupported 1 (no\\x1b[2J\\x0ak  bit_exact 9)\n");
}

}  // namespace
}  // namespace reprolab::verify
