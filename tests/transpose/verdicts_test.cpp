// What the verdicts on the post's claims have in common: their sources, their rows, what hinders
// them.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "experiments/harness/errors.hpp"
#include "tests/message_of.hpp"
#include "tests/transpose/matrix_rows.hpp"

namespace reprolab::transpose {
namespace {

/// That the claims of `concerned` cannot be tested for this reason, and all others are decided as
/// they are without what is amiss.
void expect_undecided(const std::vector<Record>& rows, const std::set<std::string>& concerned,
                      const std::string& reason) {
  for (const auto& verdict : decide(rows, theoretical_gb_s, published())) {
    if (concerned.contains(verdict.claim)) {
      expect_not_testable(verdict, reason);
    } else {
      EXPECT_EQ(name(verdict.verdict), name(only(verdict.claim, rows_as_published()).verdict))
          << verdict.claim << ": " << verdict.reason;
    }
  }
}

/// Which claims stand on whose times.
const std::map<std::string_view, std::set<std::string>> claims_timed_by = {
    {naive, {"swizzle"}},
    {swizzle, {"swizzle", "batched"}},
    {batched, {"batched", "mojo-is-cuda-like"}},
    {published_batched, {"84-percent", "mojo-is-cuda-like"}}};

TEST(TransposeClaims, AreAllOfThePostsWithItsWords) {
  const json claims = published()["transpose_blog"]["claims"];
  for (const auto& rows : {rows_as_published(), std::vector<Record>{}}) {
    std::set<std::string> decided;
    for (const auto& verdict : decide(rows, theoretical_gb_s, published())) {
      const auto claim = std::ranges::find_if(
          claims, [&](const json& entry) { return entry["id"] == verdict.claim; });
      ASSERT_NE(claim, claims.end()) << verdict.claim;
      EXPECT_EQ(verdict.text, (*claim)["text"].get<std::string>());
      EXPECT_EQ(verdict.source, "transpose_blog");
      EXPECT_TRUE(verdict.cell.is_null());
      EXPECT_FALSE(verdict.tolerance.empty()) << verdict.claim;
      EXPECT_FALSE(verdict.reason.empty()) << verdict.claim;
      EXPECT_TRUE(decided.insert(verdict.claim).second) << verdict.claim << " twice";
    }
    EXPECT_EQ(decided.size(), claims.size());
  }
}

TEST(TransposeClaims, OnThePostsOwnNumbersHoldButForItsIndices) {
  const std::map<std::string, Verdict> expected = {{"swizzle", Verdict::reproduced},
                                                   {"batched", Verdict::reproduced},
                                                   {"84-percent", Verdict::reproduced},
                                                   {"mojo-is-cuda-like", Verdict::premise_false},
                                                   {"correct", Verdict::premise_false}};
  for (const auto& verdict : decide(rows_as_published(), theoretical_gb_s, published())) {
    EXPECT_EQ(name(verdict.verdict), name(expected.at(verdict.claim))) << verdict.claim;
  }
}

TEST(TransposeClaims, HaveTheSourcesValuesEvenWhereNothingRan) {
  for (const auto& rows : {rows_as_published(), std::vector<Record>{}}) {
    EXPECT_DOUBLE_EQ(only("swizzle", rows).source_value.value(), 1437.55 / 1056.08);
    EXPECT_DOUBLE_EQ(only("batched", rows).source_value.value(), 2775.49 / 1437.55);
    EXPECT_DOUBLE_EQ(only("84-percent", rows).source_value.value(), 84.1056);
    EXPECT_DOUBLE_EQ(only("mojo-is-cuda-like", rows).source_value.value(), 2775.49 / 2771.35);
    EXPECT_FALSE(only("correct", rows).source_value);
  }
}

TEST(TransposeClaims, FollowWhatIsPublished) {
  json changed = published();
  changed["transpose_blog"]["mojo_gb_s"]["tma_swizzle"] = 2000;
  changed["transpose_blog"]["cuda_gb_s"]["tma_swizzle_batched"] = 1000;
  changed["transpose_blog"]["best_percent_of_peak"] = 50;
  const auto verdicts = decide(rows_as_published(), theoretical_gb_s, changed);
  const auto source_value = [&](const char* claim) {
    return std::ranges::find(verdicts, claim, &VerdictRecord::claim)->source_value.value();
  };
  EXPECT_DOUBLE_EQ(source_value("swizzle"), 2000 / 1056.08);
  EXPECT_DOUBLE_EQ(source_value("batched"), 2775.49 / 2000);
  EXPECT_DOUBLE_EQ(source_value("84-percent"), 50);
  EXPECT_DOUBLE_EQ(source_value("mojo-is-cuda-like"), 2775.49 / 1000);
}

TEST(TransposeClaims, SayWhichRowsDecidedThem) {
  const auto rows = rows_as_published();
  const auto keys = [&](const char* claim) { return only(claim, rows).decided_by; };
  using Keys = std::vector<std::string>;
  EXPECT_EQ(keys("swizzle"), (Keys{"32768x32768/tma_naive", "32768x32768/tma_swizzle"}));
  EXPECT_EQ(keys("batched"), (Keys{"32768x32768/tma_swizzle", "32768x32768/tma_batched"}));
  EXPECT_EQ(keys("84-percent"), Keys{"32768x32768/tma_batched_as_published"});
  EXPECT_EQ(keys("mojo-is-cuda-like"),
            (Keys{"32768x32768/tma_batched", "32768x32768/tma_batched_as_published"}));
  EXPECT_EQ(keys("correct"), (Keys{"32768x32768/tma_batched_as_published",
                                   "32768x32768/constant/tma_batched_as_published"}));
}

std::vector<Record> rows_of_size(std::int64_t size) {
  auto rows = rows_as_published();
  for (Record& row : rows) row.problem["rows"] = size;
  return rows;
}

TEST(TransposeClaims, AreDecidedOnLargeMatricesOfWholeTilesAlone) {
  for (const std::int64_t size : {16384, 16416, 65536}) {
    for (const auto& verdict : decide(rows_of_size(size), theoretical_gb_s, published())) {
      EXPECT_NE(name(verdict.verdict), "not_testable") << verdict.claim << " at " << size;
    }
  }
  for (const std::int64_t size : {1, 1024, 16352, 16383, 16385, 16400, 32767}) {
    const auto verdicts = decide(rows_of_size(size), theoretical_gb_s, published());
    EXPECT_EQ(verdicts.size(), published()["transpose_blog"]["claims"].size());
    for (const auto& verdict : verdicts) {
      EXPECT_FALSE(verdict.text.empty()) << verdict.claim;
      EXPECT_EQ(verdict.source, "transpose_blog");
      expect_not_testable(verdict,
                          fmt::format("decided on matrices of at least 16384 x 16384 whose size is "
                                      "a multiple of 32; this one has {} rows",
                                      size));
    }
  }
}

TEST(TransposeClaims, OnAMissingRowAreNotTestable) {
  for (const auto& [kernel, claims] : claims_timed_by) {
    auto rows = rows_without(kernel);
    if (kernel == published_batched) {
      expect_not_testable(only("correct", rows),
                          "tma_batched_as_published did not run on both kinds of data");
      for (const auto& claim : claims) {
        expect_not_testable(only(claim, rows), "tma_batched_as_published did not run");
      }
    } else {
      expect_undecided(rows, claims, fmt::format("{} did not run", kernel));
    }
  }
}

TEST(TransposeClaims, OnAWrongOrFailedRowAreNotTestable) {
  for (const auto& [kernel, claims] : claims_timed_by) {
    if (kernel == published_batched) continue;  // see CorrectClaim
    for (const Outcome outcome : {Outcome::mismatch, Outcome::launch_failed}) {
      auto rows = rows_as_published();
      set_failed(row_of(rows, kernel), outcome, wrong);
      expect_undecided(rows, claims, fmt::format("{} is {}: {}", kernel, name(outcome), wrong));
    }
  }
}

TEST(TransposeClaims, OnAnUntimedRowAreNotTestable) {
  for (const auto& [kernel, claims] : claims_timed_by) {
    auto rows = rows_as_published();
    row_of(rows, kernel).samples_us.clear();
    expect_undecided(rows, claims, fmt::format("{} was not timed", kernel));
  }
}

TEST(TransposeClaims, OnAGpuWithoutTheAcceleratorAreNotTestable) {
  const std::string why = "needs the tensor memory accelerator (compute capability 9.0 or newer)";
  auto rows = rows_as_published();
  for (Record& row : rows) {
    if (row.variant.name != "copy") set_failed(row, Outcome::unsupported, why);
  }
  const auto reason = [&](std::string_view kernel) {
    return fmt::format("{} is unsupported: {}", kernel, why);
  };
  expect_not_testable(only("swizzle", rows), reason(naive));
  expect_not_testable(only("batched", rows), reason(swizzle));
  expect_not_testable(only("84-percent", rows), reason(published_batched));
  expect_not_testable(only("mojo-is-cuda-like", rows), reason(batched));
  expect_not_testable(only("correct", rows), "unsupported: " + why);
}

TEST(TransposeClaims, ThatAreNotPublishedAreAnError) {
  for (const char* claim : {"swizzle", "batched", "84-percent", "mojo-is-cuda-like", "correct"}) {
    json data = published();
    auto& claims = data["transpose_blog"]["claims"].get_ref<json::array_t&>();
    std::erase_if(claims, [&](const json& entry) { return entry["id"] == claim; });
    EXPECT_EQ(message_of<UsageError>([&] { decide({}, theoretical_gb_s, data); }),
              fmt::format("data/published: 'transpose_blog' has no claim '{}'", claim));
  }
}

}  // namespace
}  // namespace reprolab::transpose
