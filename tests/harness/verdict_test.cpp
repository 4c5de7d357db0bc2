#include "experiments/harness/verdict.hpp"

#include <gtest/gtest.h>

#include "experiments/harness/errors.hpp"
#include "tests/message_of.hpp"

namespace reprolab {
namespace {

using nlohmann::json;

const json published = json::parse(R"({
  "post": {"claims": [{"id": "first", "text": "it is fast"}, {"id": "second", "text": "more"}]},
  "paper": {"claims": [{"id": "first", "text": "another of that name"}]}})");

VerdictRecord verdict_of(double source, double ours) {
  VerdictRecord verdict;
  verdict.source_value = source;
  verdict.our_value = ours;
  return verdict;
}

TEST(Ratio, BelowFiveSamplesIsOfMediansFromEndToEnd) {
  const Ranged found = ratio({30, 10, 20}, {4, 5, 8});
  EXPECT_DOUBLE_EQ(found.value, 20.0 / 5);
  EXPECT_DOUBLE_EQ(found.low, 10.0 / 8);
  EXPECT_DOUBLE_EQ(found.high, 30.0 / 4);
}

TEST(Ratio, OfFiveSamplesIsOfMediansFromQuartileToQuartile) {
  const Ranged found = ratio({50, 10, 20, 30, 40}, {5, 1, 2, 3, 4});
  EXPECT_DOUBLE_EQ(found.value, 30.0 / 3);
  EXPECT_DOUBLE_EQ(found.low, 20.0 / 4);
  EXPECT_DOUBLE_EQ(found.high, 40.0 / 2);
}

TEST(Ratio, OfNoSamplesIsAnError) {
  EXPECT_THROW(ratio({}, {1}), std::invalid_argument);
  EXPECT_THROW(ratio({1}, {}), std::invalid_argument);
}

TEST(PublishedClaim, IsLookedForUnderItsSource) {
  EXPECT_EQ(published_claim(published, "post", "first").at("text"), "it is fast");
  EXPECT_EQ(published_claim(published, "paper", "first").at("text"), "another of that name");
}

TEST(PublishedClaim, ThatIsNotThereIsAnErrorThatNamesIt) {
  EXPECT_EQ(message_of<UsageError>([] { published_claim(published, "paper", "second"); }),
            "data/published: 'paper' has no claim 'second'");
  EXPECT_EQ(message_of<UsageError>([] { start_verdict(published, "post", "third", "x"); }),
            "data/published: 'post' has no claim 'third'");
}

TEST(StartVerdict, HasTheClaimsWordsAndDecidesNothing) {
  const VerdictRecord verdict = start_verdict(published, "post", "second", "GB/s");
  EXPECT_EQ(verdict.claim, "second");
  EXPECT_EQ(verdict.source, "post");
  EXPECT_EQ(verdict.text, "more");
  EXPECT_EQ(verdict.unit, "GB/s");
  EXPECT_TRUE(verdict.cell.is_null());
  EXPECT_EQ(verdict.verdict, Verdict::not_testable);
  EXPECT_FALSE(verdict.source_value || verdict.our_value || verdict.our_interval);
  EXPECT_EQ(verdict.tolerance + verdict.reason, "");
  EXPECT_TRUE(verdict.decided_by.empty());
}

TEST(SetOurs, KeepsTheValueAndItsInterval) {
  VerdictRecord verdict;
  set_ours(verdict, {2, 1, 4});
  EXPECT_EQ(verdict.our_value, 2.0);
  EXPECT_EQ(verdict.our_interval, std::pair(1.0, 4.0));
}

TEST(Within, SaysTheToleranceWithoutNeedlessDigits) {
  EXPECT_EQ(within(10), "within 10 % of the source's value");
  EXPECT_EQ(within(2.5), "within 2.5 % of the source's value");
}

TEST(JudgeWithin, ReproducesUpToTheToleranceOnEitherSide) {
  for (const double ours : {90.0, 90.01, 100.0, 109.99}) {
    auto verdict = verdict_of(100, ours);
    judge_within(verdict, 10);
    EXPECT_EQ(verdict.verdict, Verdict::reproduced) << ours;
  }
  for (const double ours : {89.9, 110.1, 0.0, 1e9}) {
    auto verdict = verdict_of(100, ours);
    judge_within(verdict, 10);
    EXPECT_EQ(verdict.verdict, Verdict::not_reproduced) << ours;
  }
}

TEST(JudgeWithin, SaysByHowMuchAndWhatWasAllowed) {
  auto faster = verdict_of(2, 2.5);
  judge_within(faster, 10);
  EXPECT_EQ(faster.reason, "+25.0 % from the source's value, 10 % allowed");
  auto slower = verdict_of(2, 1.98);
  judge_within(slower, 2.5);
  EXPECT_EQ(slower.reason, "-1.0 % from the source's value, 2.5 % allowed");
}

std::string printed(const std::vector<VerdictRecord>& verdicts,
                    const std::function<bool(const VerdictRecord&)>& shows_reason) {
  testing::internal::CaptureStdout();
  print_verdicts(verdicts, shows_reason);
  return testing::internal::GetCapturedStdout();
}

const std::string header =
    "\n"
    "claim                            cell                         source     ours    diff.  "
    "verdict\n";

TEST(PrintVerdicts, IsOneLineAClaimAndTheReasonWhereItIsAskedFor) {
  auto first = verdict_of(2, 2.5);
  first.claim = "kernel-speedup";
  first.cell = {{"batch", 8}, {"model", "qwen3-32b"}};
  first.verdict = Verdict::not_reproduced;
  first.reason = "why it is not";
  auto second = verdict_of(84.1056, 80);
  second.claim = "84-percent";
  second.verdict = Verdict::reproduced;
  second.reason = "why it is";
  EXPECT_EQ(printed({first, second}, [](const auto& v) { return v.claim == "84-percent"; }),
            header +
                "kernel-speedup                   batch 8, qwen3-32b             2.00     2.50   "
                "+25.0%  not_reproduced\n"
                "84-percent                                                     84.11    80.00    "
                "-4.9%  reproduced\n"
                "    why it is\n");
}

TEST(PrintVerdicts, AlwaysSaysWhyNothingCouldBeDecided) {
  VerdictRecord verdict;
  verdict.claim = "batched";
  verdict.source_value = 1.93;
  verdict.reason = "tma_batched did not run";
  EXPECT_EQ(
      printed({verdict}, [](const auto&) { return false; }),
      header +
          "batched                                                         1.93        -      "
          "  -  not_testable\n"
          "    tma_batched did not run\n");
}

TEST(PrintVerdicts, OfACellHasWordsAsTheyAreAndNumbersWithTheirNames) {
  const auto cell_of = [](const json& cell) {
    VerdictRecord verdict;
    verdict.claim = "c";
    verdict.cell = cell;
    verdict.verdict = Verdict::premise_false;
    const std::string text = printed({verdict}, [](const auto&) { return false; });
    const std::string line = text.substr(header.size());
    EXPECT_EQ(line.substr(0, 33), "c" + std::string(32, ' '));
    const std::string rest = "        -        -        -  premise_false\n";
    EXPECT_EQ(line.substr(line.size() - rest.size()), rest);
    const std::string cell_text = line.substr(33, line.size() - rest.size() - 33);
    return cell_text.substr(0, cell_text.find_last_not_of(' ') + 1);
  };
  EXPECT_EQ(cell_of(nullptr), "");
  EXPECT_EQ(cell_of({{"model", "gemma"}}), "gemma");
  EXPECT_EQ(cell_of({{"model", "gemma"}, {"batch", "average"}}), "average, gemma");
  EXPECT_EQ(cell_of({{"rows", 4096}, {"data", "constant"}}), "constant, rows 4096");
  EXPECT_EQ(cell_of({{"share", 0.5}}), "share 0.5");
}

TEST(PrintVerdicts, OfNoneIsTheHeaderAlone) {
  EXPECT_EQ(printed({}, [](const auto&) { return true; }), header);
}

}  // namespace
}  // namespace reprolab
