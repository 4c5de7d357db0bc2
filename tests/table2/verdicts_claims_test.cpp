// The paper's other claims that a replay decides.
#include <gtest/gtest.h>

#include <set>

#include "experiments/harness/errors.hpp"
#include "tests/message_of.hpp"
#include "tests/table2/replay_rows.hpp"

namespace reprolab::table2 {
namespace {

/// The one verdict on a claim that has one.
VerdictRecord only(const std::string& claim, const std::vector<Record>& rows) {
  const auto verdicts = verdicts_on(claim, rows);
  EXPECT_EQ(verdicts.size(), 1u) << claim;
  return verdicts.at(0);
}

TEST(Table2Claims, EveryVerdictHasAClaimOfThePaperAndItsText) {
  std::set<std::string> decided;
  std::map<std::string, std::string> texts;
  const auto data = published();
  for (const auto& claim : data.at("paper").at("claims")) {
    texts[claim.at("id")] = claim.at("text");
  }
  for (const auto& rows : {rows_as_published(), std::vector<Record>{}}) {
    for (const auto& verdict : decide(rows, published())) {
      ASSERT_TRUE(texts.contains(verdict.claim)) << verdict.claim;
      EXPECT_EQ(verdict.text, texts[verdict.claim]);
      EXPECT_EQ(verdict.source, "paper");
      EXPECT_FALSE(verdict.tolerance.empty() && verdict.verdict != Verdict::not_testable);
      EXPECT_FALSE(verdict.reason.empty()) << verdict.claim;
      decided.insert(verdict.claim);
    }
  }
  EXPECT_EQ(decided, (std::set<std::string>{"kernel-speedup", "qmatmul-72", "batch-invariant",
                                            "baseline-reads-lut-from-global", "single-thread-fill",
                                            "immediates-icache", "algorithm-1", "token-exact"}));
}

TEST(Table2Claims, EveryVerdictIsDecidedByRowsThatAreThere) {
  const auto rows = rows_as_published();
  std::set<std::string> keys;
  for (const Record& row : rows) keys.insert(row.key);
  EXPECT_EQ(keys.size(), rows.size());
  for (const auto& verdict : decide(rows, published())) {
    EXPECT_NE(verdict.verdict, Verdict::not_testable) << verdict.claim << ": " << verdict.reason;
    EXPECT_FALSE(verdict.decided_by.empty()) << verdict.claim;
    for (const auto& key : verdict.decided_by) EXPECT_TRUE(keys.contains(key)) << key;
  }
}

TEST(Table2Claims, WithoutRowsNothingIsDecided) {
  for (const auto& verdict : decide({}, published())) {
    EXPECT_EQ(verdict.verdict, Verdict::not_testable) << verdict.claim;
    EXPECT_FALSE(verdict.our_value) << verdict.claim;
  }
}

TEST(Table2Claims, WhereEveryRowMismatchesNothingIsDecided) {
  for (const Outcome outcome : {Outcome::mismatch, Outcome::launch_failed}) {
    auto rows = rows_as_published();
    for (Record& row : rows) make_failed(row, outcome);
    for (const auto& verdict : decide(rows, published())) {
      EXPECT_EQ(verdict.verdict, Verdict::not_testable) << verdict.claim << ": " << verdict.reason;
      EXPECT_FALSE(verdict.reason.empty()) << verdict.claim;
    }
  }
}

TEST(Table2Claims, AClaimThatIsNotPublishedIsAnError) {
  auto data = published();
  auto& claims = data["paper"]["claims"];
  std::erase_if(claims.get_ref<nlohmann::json::array_t&>(),
                [](const auto& claim) { return claim["id"] == "token-exact"; });
  EXPECT_EQ(message_of<UsageError>([&] { decide(rows_as_published(), data); }),
            "data/published: the paper has no claim 'token-exact'");
}

TEST(ShareOfDequantization, IsOfDequantizeAndProductPassByPass) {
  auto rows = rows_as_published();
  auto share = only("qmatmul-72", rows);
  EXPECT_EQ(share.cell, (nlohmann::json{{"model", "qwen3-32b"}, {"batch", 8}}));
  EXPECT_EQ(share.source_value, 72.4);
  EXPECT_NEAR(*share.our_value, 72.4, 1e-9);
  EXPECT_EQ(share.verdict, Verdict::reproduced);
  EXPECT_EQ(share.unit, "%");

  change_rows(
      rows, [](const Record& row) { return row.key == "qwen3-32b/batch8/branch_tree"; },
      [](Record& row) {
        row.samples_us = {100, 300, 100};
        row.product_samples_us = {100, 100, 300};
      });
  share = only("qmatmul-72", rows);
  EXPECT_NEAR(*share.our_value, 50, 1e-9);  // 50, 75 and 25 %
  EXPECT_EQ(share.verdict, Verdict::not_reproduced);
}

TEST(BatchInvariance, ComparesTheBaselinesMediansOverAllBatches) {
  auto rows = rows_as_published();
  auto verdicts = verdicts_on("batch-invariant", rows);
  ASSERT_EQ(verdicts.size(), 4u);
  for (const auto& verdict : verdicts) {
    EXPECT_EQ(verdict.verdict, Verdict::reproduced);
    EXPECT_NEAR(*verdict.our_value, 0, 1e-9);
    EXPECT_EQ(verdict.decided_by.size(), 6u);
    EXPECT_EQ(verdict.reason, "2.10 to 2.10 ms a forward pass over batches 2 to 64");
  }
  change_rows(
      rows, [](const Record& row) { return row.key == "gemma-3-27b/batch16/branch_tree"; },
      [](Record& row) {
        row.samples_us = {2163, 2163, 2163};
      });
  verdicts = verdicts_on("batch-invariant", rows);
  EXPECT_EQ(verdicts[0].verdict, Verdict::reproduced);
  EXPECT_EQ(verdicts[1].cell, (nlohmann::json{{"model", "gemma-3-27b"}}));
  EXPECT_EQ(verdicts[1].verdict, Verdict::not_reproduced);
  EXPECT_NEAR(*verdicts[1].our_value, 3.0, 1e-9);
  EXPECT_EQ(verdicts[1].tolerance, "greatest and smallest median within 2 %");
}

TEST(BatchInvariance, IsNotTestableWithoutEveryBatch) {
  auto rows = rows_as_published();
  std::erase_if(rows, [](const Record& row) { return row.key == "qwen3-32b/batch64/branch_tree"; });
  const auto verdicts = verdicts_on("batch-invariant", rows);
  EXPECT_EQ(verdicts[2].verdict, Verdict::not_testable);
  EXPECT_EQ(verdicts[2].reason, "branch_tree did not run on qwen3-32b at batch 64");
}

/// The fill's verdict when the cooperative fill takes `relative` of the paper's kernel's time.
VerdictRecord fill_verdict(double relative) {
  auto rows = rows_as_published();
  change_rows(rows, of_kernel("shared_lut"), [](Record& row) {
    row.samples_us = {999, 1000, 1001};
  });
  change_rows(rows, of_kernel("shared_lut_cooperative"), [&](Record& row) {
    row.samples_us = {999 * relative, 1000 * relative, 1001 * relative};
  });
  return only("single-thread-fill", rows);
}

TEST(SingleThreadFill, IsReproducedWhereTheCooperativeFillIsSlowerEverywhere) {
  const auto verdict = fill_verdict(1.1);
  EXPECT_EQ(verdict.verdict, Verdict::reproduced);
  EXPECT_NEAR(*verdict.our_value, 1.1, 1e-9);
  EXPECT_EQ(verdict.decided_by.size(), 48u);
  EXPECT_EQ(verdict.reason,
            "time of shared_lut_cooperative over shared_lut: slower in every model and batch");
}

TEST(SingleThreadFill, IsNotReproducedWhereTheCooperativeFillIsFasterEverywhere) {
  const auto verdict = fill_verdict(0.9);
  EXPECT_EQ(verdict.verdict, Verdict::not_reproduced);
  EXPECT_EQ(verdict.reason,
            "time of shared_lut_cooperative over shared_lut: faster in every model and batch");
}

TEST(SingleThreadFill, IsNotReproducedWhereNoDifferenceIsSeen) {
  const auto verdict = fill_verdict(1.0001);
  EXPECT_EQ(verdict.verdict, Verdict::not_reproduced);
  EXPECT_EQ(verdict.reason, "time of shared_lut_cooperative over shared_lut: no difference seen");
}

TEST(SingleThreadFill, OneRowThatFailedMakesItNotTestable) {
  auto rows = rows_as_published();
  change_rows(
      rows,
      [](const Record& row) { return row.key == "gemma-2-27b/batch2/shared_lut_cooperative"; },
      [](Record& row) { make_failed(row, Outcome::mismatch); });
  const auto verdict = only("single-thread-fill", rows);
  EXPECT_EQ(verdict.verdict, Verdict::not_testable);
  EXPECT_EQ(verdict.reason,
            "shared_lut_cooperative on gemma-2-27b at batch 2 is mismatch, not timed");
}

TEST(Premise, IsFalseOnceATableInGlobalMemoryWasTimed) {
  const auto verdict = only("baseline-reads-lut-from-global", rows_as_published());
  EXPECT_EQ(verdict.verdict, Verdict::premise_false);
  EXPECT_NE(verdict.reason.find("(kernels/nf4/branch_tree.cu) and reads no table at all"),
            std::string::npos)
      << verdict.reason;
}

TEST(Algorithm1, IsPremiseFalseWhereItDeviatesAsDeclared) {
  const auto verdict = only("algorithm-1", rows_as_published());
  EXPECT_EQ(verdict.verdict, Verdict::premise_false);
  EXPECT_EQ(verdict.reason, "as printed the output is wrong: 7 of 8 weights differ");
  EXPECT_EQ(verdict.decided_by,
            std::vector<std::string>{"gemma-2-27b/batch2/shared_lut_algorithm1"});
}

TEST(Algorithm1, IsReproducedWhereItIsBitExactAndNotTestableWhereItFailed) {
  auto rows = rows_as_published();
  change_rows(rows, of_kernel("shared_lut_algorithm1"),
              [](Record& row) { row.outcome = Outcome::bit_exact; });
  EXPECT_EQ(only("algorithm-1", rows).verdict, Verdict::reproduced);
  change_rows(rows, of_kernel("shared_lut_algorithm1"),
              [](Record& row) { make_failed(row, Outcome::mismatch); });
  EXPECT_EQ(only("algorithm-1", rows).verdict, Verdict::not_testable);
  EXPECT_EQ(only("algorithm-1", rows).reason, "1 of 8 weights differ");
  std::erase_if(rows, of_kernel("shared_lut_algorithm1"));
  EXPECT_EQ(only("algorithm-1", rows).reason, "shared_lut_algorithm1 did not run");
}

TEST(Exactness, CountsTheWeightsThatWereCompared) {
  const auto verdict = only("token-exact", rows_as_published());
  EXPECT_EQ(verdict.verdict, Verdict::reproduced);
  EXPECT_EQ(verdict.reason,
            "4.0 billion weights compared, before and after timing; equal weights give equal "
            "tokens");
  EXPECT_EQ(verdict.decided_by.size(), 4u);
}

TEST(Exactness, OneModelThatFailedLeavesNothingReproduced) {
  auto rows = rows_as_published();
  change_rows(
      rows, [](const Record& row) { return row.key.ends_with("qwen3-32b/batch2/shared_lut"); },
      [](Record& row) { make_failed(row, Outcome::mismatch); });
  const auto verdict = only("token-exact", rows);
  EXPECT_EQ(verdict.verdict, Verdict::not_testable);
  EXPECT_EQ(verdict.reason, "shared_lut on qwen3-32b: mismatch");
}

}  // namespace
}  // namespace reprolab::table2
