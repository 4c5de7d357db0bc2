// Claim by claim, when it holds and in which words.
#include <gtest/gtest.h>

#include "tests/transpose/matrix_rows.hpp"

namespace reprolab::transpose {
namespace {

TEST(GainClaims, SayBothBandwidthsAndWhatStaysOpen) {
  const auto rows = rows_as_published();
  EXPECT_EQ(
      only("swizzle", rows).reason,
      "tma_naive: 1056 GB/s, tma_swizzle: 1438 GB/s; by the indices alone 32-way bank conflicts "
      "become 4-way ones; that this is why needs counters");
  EXPECT_EQ(only("batched", rows).reason,
            "tma_swizzle: 1438 GB/s, tma_batched: 2771 GB/s; with indices that are right");
  for (const char* claim : {"swizzle", "batched"}) {
    EXPECT_EQ(only(claim, rows).tolerance, "at least 0.9 of the source's factor");
    EXPECT_EQ(only(claim, rows).unit, "x");
  }
}

TEST(GainClaims, NeedNineTenthsOfTheSourcesFactorAndMayExceedIt) {
  const double swizzle_gain = 1437.55 / 1056.08, batched_gain = 2775.49 / 1437.55;
  for (const double share : {0.901, 1.0, 5.0}) {
    auto rows = rows_as_published();
    set_speed(rows, naive, 1000);
    set_speed(rows, swizzle, 1000 * share * swizzle_gain);
    set_speed(rows, batched, 1000 * share * swizzle_gain * share * batched_gain);
    EXPECT_EQ(name(only("swizzle", rows).verdict), "reproduced") << share;
    EXPECT_EQ(name(only("batched", rows).verdict), "reproduced") << share;
    EXPECT_NEAR(only("swizzle", rows).our_value.value(), share * swizzle_gain, 1e-9);
    EXPECT_NEAR(only("batched", rows).our_value.value(), share * batched_gain, 1e-9);
  }
  for (const double share : {0.899, 0.5}) {
    auto rows = rows_as_published();
    set_speed(rows, swizzle, 1056.08 * share * swizzle_gain);
    EXPECT_EQ(name(only("swizzle", rows).verdict), "not_reproduced") << share;
    rows = rows_as_published();
    set_speed(rows, batched, 1437.55 * share * batched_gain);
    EXPECT_EQ(name(only("batched", rows).verdict), "not_reproduced") << share;
  }
}

TEST(GainClaims, AreOfMediansWithTheirInterval) {
  auto rows = rows_as_published();
  row_of(rows, naive).samples_us = {300, 100, 200, 500, 400};
  row_of(rows, swizzle).samples_us = {100, 110, 90, 80, 120};
  const auto verdict = only("swizzle", rows);
  EXPECT_DOUBLE_EQ(verdict.our_value.value(), 300.0 / 100);
  EXPECT_DOUBLE_EQ(verdict.our_interval->first, 200.0 / 110);
  EXPECT_DOUBLE_EQ(verdict.our_interval->second, 400.0 / 90);
}

TEST(ShareClaim, IsThePublishedKernelsShareOfTheGpusBandwidth) {
  const auto verdict = only("84-percent", rows_as_published());
  EXPECT_EQ(verdict.unit, "%");
  EXPECT_EQ(verdict.tolerance, "within 10 % of the source's value");
  EXPECT_NEAR(verdict.our_value.value(), 100 * 2775.49 / 3300, 1e-9);
  EXPECT_NEAR(verdict.our_interval->first, 100 * 2775.49 / 3300 / 1.001, 1e-9);
  EXPECT_NEAR(verdict.our_interval->second, 100 * 2775.49 / 3300 / 0.999, 1e-9);
  EXPECT_EQ(verdict.reason,
            "+0.0 % from the source's value, 10 % allowed; 2775 of 3300 GB/s in theory, where the "
            "post takes 3300 GB/s for its H100; of what a copy reaches here it is 69.4 %");
}

TEST(ShareClaim, IsJudgedWithinTenPercentOnAnyGpu) {
  const auto verdict_at = [](double percent) {
    auto rows = rows_as_published();
    set_speed(rows, published_batched, 48 * percent);
    return only("84-percent", rows, 4800);
  };
  EXPECT_EQ(name(verdict_at(84.1056 * 0.901).verdict), "reproduced");
  EXPECT_EQ(name(verdict_at(84.1056 * 1.099).verdict), "reproduced");
  EXPECT_EQ(name(verdict_at(84.1056 * 1.101).verdict), "not_reproduced");
  const auto slow = verdict_at(84.1056 * 0.899);
  EXPECT_EQ(name(slow.verdict), "not_reproduced");
  EXPECT_EQ(slow.reason,
            "-10.1 % from the source's value, 10 % allowed; 3629 of 4800 GB/s in theory, where "
            "the post takes 3300 GB/s for its H100; of what a copy reaches here it is 90.7 %");
}

TEST(ShareClaim, NeedsTheGpusTheoreticalBandwidth) {
  const auto rows = rows_as_published();
  expect_not_testable(only("84-percent", rows, std::nullopt),
                      "this GPU does not say its theoretical bandwidth");
  for (const auto& verdict : decide(rows, std::nullopt, published())) {
    EXPECT_EQ(verdict.verdict == Verdict::not_testable, verdict.claim == "84-percent");
  }
}

TEST(ShareClaim, DoesWithoutACopy) {
  auto untimed = rows_as_published();
  row_of(untimed, "copy").samples_us.clear();
  for (const auto& rows : {rows_without("copy"), untimed}) {
    const auto verdict = only("84-percent", rows);
    EXPECT_EQ(name(verdict.verdict), "reproduced");
    EXPECT_EQ(verdict.reason,
              "+0.0 % from the source's value, 10 % allowed; 2775 of 3300 GB/s in theory, where "
              "the post takes 3300 GB/s for its H100");
  }
}

TEST(SameTaskClaim, RestsOnAKernelThatTransposes) {
  const auto verdict = only("mojo-is-cuda-like", rows_as_published());
  EXPECT_EQ(name(verdict.verdict), "premise_false");
  EXPECT_NEAR(verdict.our_value.value(), 2775.49 / 2771.35, 1e-9);
  EXPECT_NEAR(verdict.our_interval->first, 2775.49 / 2771.35 * 0.999 / 1.001, 1e-9);
  EXPECT_NEAR(verdict.our_interval->second, 2775.49 / 2771.35 * 1.001 / 0.999, 1e-9);
  EXPECT_EQ(verdict.tolerance, "the same task; the speed would need a run of Mojo itself");
  EXPECT_EQ(verdict.unit, "x");
  EXPECT_EQ(verdict.reason,
            "not the same task: with the Mojo code's indices 939524096 of 1073741824 elements are "
            "wrong; Mojo itself was not run; in CUDA, its indices and the right ones move the same "
            "bytes at 2775 and 2771 GB/s, so its speed may well stand");
}

/// However fast its indices are in CUDA.
TEST(SameTaskClaim, IsNotTestableWithoutMojoWhereTheKernelIsRight) {
  for (const double share : {0.5, 1.0, 1.5}) {
    auto rows = rows_as_published();
    Record& mojo = row_of(rows, published_batched);
    mojo.outcome = Outcome::bit_exact;
    mojo.reason = "";
    mojo.mismatches.reset();
    set_speed(rows, published_batched, share * 2000);
    set_speed(rows, batched, 2000);
    const auto verdict = only("mojo-is-cuda-like", rows);
    EXPECT_EQ(name(verdict.verdict), "not_testable");
    EXPECT_NEAR(verdict.our_value.value(), share, 1e-9);
    EXPECT_EQ(verdict.reason,
              fmt::format("Mojo itself was not run; in CUDA, its indices and the right ones move "
                          "the same bytes at {:.0f} and 2000 GB/s, so its speed may well stand",
                          share * 2000));
  }
}

TEST(CorrectClaim, RestsOnACheckThatShowsSomething) {
  const auto verdict = only("correct", rows_as_published());
  EXPECT_EQ(name(verdict.verdict), "premise_false");
  EXPECT_EQ(verdict.tolerance,
            "the check passes, and on random data every bit equals the reference");
  EXPECT_EQ(verdict.unit, "");
  EXPECT_FALSE(verdict.our_value);
  EXPECT_EQ(verdict.reason,
            "the check passes here too, but shows nothing: a matrix of one constant is its own "
            "transpose whatever the indices; on random data " +
                wrong);
}

TEST(CorrectClaim, IsReproducedByARightOutput) {
  auto rows = rows_as_published();
  row_of(rows, published_batched).outcome = Outcome::bit_exact;
  const auto verdict = only("correct", rows);
  EXPECT_EQ(name(verdict.verdict), "reproduced");
  EXPECT_EQ(verdict.reason, "the post's check passes, and on random data the output is right");
}

TEST(CorrectClaim, IsNotReproducedWhereThePostsOwnCheckFails) {
  for (const Outcome random : {Outcome::bit_exact, Outcome::deviation_as_declared}) {
    auto rows = rows_as_published();
    row_of(rows, published_batched).outcome = random;
    row_of(rows, published_batched, "constant").outcome = Outcome::deviation_as_declared;
    row_of(rows, published_batched, "constant").reason = "1 of 8 elements differ";
    const auto verdict = only("correct", rows);
    EXPECT_EQ(name(verdict.verdict), "not_reproduced");
    EXPECT_EQ(verdict.reason, "the post's check fails here: 1 of 8 elements differ");
  }
}

/// Our fault, which says nothing of the post.
TEST(CorrectClaim, IsNotTestableWhereTheKernelDoesNotEvenDeviateAsDeclared) {
  for (const Outcome outcome : {Outcome::mismatch, Outcome::launch_failed}) {
    for (const char* data : {"random", "constant"}) {
      auto rows = rows_as_published();
      set_failed(row_of(rows, published_batched, data), outcome, "does not deviate as declared");
      expect_not_testable(only("correct", rows),
                          fmt::format("{}: does not deviate as declared", name(outcome)));
    }
  }
}

TEST(CorrectClaim, NeedsBothKindsOfData) {
  for (const char* data : {"random", "constant"}) {
    expect_not_testable(only("correct", rows_without(published_batched, data)),
                        "tma_batched_as_published did not run on both kinds of data");
  }
}

}  // namespace
}  // namespace reprolab::transpose
