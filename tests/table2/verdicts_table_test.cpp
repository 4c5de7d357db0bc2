// Table II cell by cell.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/table2/replay_rows.hpp"

namespace reprolab::table2 {
namespace {

TEST(Table2Cells, AreThePapersValuesForEveryModelAndBatch) {
  const auto cells = table_cells(rows_as_published());
  ASSERT_EQ(cells.size(), 4u * 6u);
  std::set<std::pair<std::string, int>> seen;
  const auto rows = published().at("paper").at("table2_speedup").at("rows");
  const std::map<std::string, int> at = {
      {"gemma-2-27b", 1}, {"gemma-3-27b", 1}, {"qwen3-32b", 2}, {"llama-3.3-70b", 3}};
  for (const auto& cell : cells) {
    const std::string model = cell.cell.at("model");
    const int batch = cell.cell.at("batch");
    seen.emplace(model, batch);
    const auto row = std::ranges::find_if(rows, [&](const auto& r) { return r.at(0) == batch; });
    ASSERT_NE(row, rows.end()) << batch;
    EXPECT_EQ(cell.source_value, row->at(at.at(model)).get<double>()) << model << " " << batch;
    EXPECT_EQ(cell.source, "paper");
    EXPECT_EQ(cell.unit, "x");
  }
  EXPECT_EQ(seen.size(), 24u);
}

TEST(Table2Cells, AllReproduceWhenTheRatiosAreThePapers) {
  for (const auto& cell : table_cells(rows_as_published())) {
    EXPECT_EQ(cell.verdict, Verdict::reproduced) << cell.cell;
    EXPECT_NEAR(*cell.our_value, *cell.source_value, 1e-9);
    EXPECT_LT(cell.our_interval->first, *cell.our_value);
    EXPECT_GT(cell.our_interval->second, *cell.our_value);
    EXPECT_EQ(cell.tolerance, "within 10 % of the source's value");
    EXPECT_TRUE(cell.reason.ends_with(" % from the source's value, 10 % allowed")) << cell.reason;
    const std::string problem = fmt::format("{}/batch{}/", cell.cell["model"].get<std::string>(),
                                            cell.cell["batch"].get<int>());
    EXPECT_EQ(cell.decided_by,
              (std::vector<std::string>{problem + "branch_tree", problem + "shared_lut"}));
  }
}

/// The cell of Qwen3 at batch 8 (paper: 2.19) when the paper's kernel takes `us` and the baseline
/// 2190 us; every other cell must stay as it was.
VerdictRecord qwen_batch8(double us) {
  auto rows = rows_as_published();
  change_rows(
      rows, [](const Record& row) { return row.key.starts_with("qwen3-32b/batch8/"); },
      [&](Record& row) {
        if (row.variant.name == "branch_tree") row.samples_us = {2190, 2190, 2190};
        if (row.variant.name == "shared_lut") row.samples_us = {us, us, us};
      });
  VerdictRecord found;
  for (const auto& cell : table_cells(rows)) {
    if (cell.cell == nlohmann::json{{"model", "qwen3-32b"}, {"batch", 8}}) {
      found = cell;
    } else {
      EXPECT_EQ(cell.verdict, Verdict::reproduced) << cell.cell;
    }
  }
  return found;
}

TEST(Table2Cells, OnePastTheToleranceIsNotReproducedAndSaysByHowMuch) {
  const auto slower = qwen_batch8(1000 / 0.899);
  EXPECT_EQ(slower.verdict, Verdict::not_reproduced);
  EXPECT_EQ(slower.reason, "-10.1 % from the source's value, 10 % allowed");
  const auto faster = qwen_batch8(1000 / 1.5);
  EXPECT_EQ(faster.verdict, Verdict::not_reproduced);
  EXPECT_EQ(faster.reason, "+50.0 % from the source's value, 10 % allowed");
  EXPECT_NEAR(faster.difference_percent().value(), 50, 1e-9);
}

TEST(Table2Cells, OneJustWithinTheToleranceIsReproduced) {
  EXPECT_EQ(qwen_batch8(1000 / 0.901).verdict, Verdict::reproduced);
  EXPECT_EQ(qwen_batch8(1000 / 1.099).verdict, Verdict::reproduced);
}

TEST(Table2Cells, TheRatioIsOfMediansWithItsInterval) {
  auto rows = rows_as_published();
  change_rows(
      rows, [](const Record& row) { return row.key == "qwen3-32b/batch8/branch_tree"; },
      [](Record& row) {
        row.samples_us = {300, 100, 200, 500, 400};
        row.product_samples_us.resize(5, 1.0);
      });
  change_rows(
      rows, [](const Record& row) { return row.key == "qwen3-32b/batch8/shared_lut"; },
      [](Record& row) {
        row.samples_us = {100, 110, 90, 80, 120};
        row.product_samples_us.resize(5, 1.0);
      });
  for (const auto& cell : table_cells(rows)) {
    if (cell.cell != nlohmann::json{{"model", "qwen3-32b"}, {"batch", 8}}) continue;
    EXPECT_DOUBLE_EQ(*cell.our_value, 300.0 / 100.0);
    EXPECT_DOUBLE_EQ(cell.our_interval->first, 200.0 / 110.0);
    EXPECT_DOUBLE_EQ(cell.our_interval->second, 400.0 / 90.0);
  }
}

TEST(Table2Cells, BelowFiveSamplesTheIntervalIsTheWholeRange) {
  auto rows = rows_as_published();
  change_rows(
      rows, [](const Record& row) { return row.key == "qwen3-32b/batch8/branch_tree"; },
      [](Record& row) {
        row.samples_us = {300, 100, 200};
      });
  change_rows(
      rows, [](const Record& row) { return row.key == "qwen3-32b/batch8/shared_lut"; },
      [](Record& row) {
        row.samples_us = {100, 110, 90};
      });
  const auto cells = table_cells(rows);
  const auto cell = std::ranges::find(cells, nlohmann::json{{"model", "qwen3-32b"}, {"batch", 8}},
                                      &VerdictRecord::cell);
  ASSERT_NE(cell, cells.end());
  EXPECT_DOUBLE_EQ(*cell->our_value, 200.0 / 100.0);
  EXPECT_DOUBLE_EQ(cell->our_interval->first, 100.0 / 110.0);
  EXPECT_DOUBLE_EQ(cell->our_interval->second, 300.0 / 90.0);
}

TEST(Table2Cells, AMissingRowIsNotTestableAndSaysWhich) {
  auto rows = rows_as_published();
  std::erase_if(rows,
                [](const Record& row) { return row.key == "llama-3.3-70b/batch4/shared_lut"; });
  int not_testable = 0;
  for (const auto& cell : table_cells(rows)) {
    if (cell.verdict != Verdict::not_testable) continue;
    ++not_testable;
    EXPECT_EQ(cell.cell, (nlohmann::json{{"model", "llama-3.3-70b"}, {"batch", 4}}));
    EXPECT_EQ(cell.reason, "shared_lut did not run on llama-3.3-70b at batch 4");
    EXPECT_EQ(cell.source_value, 2.04);
    EXPECT_FALSE(cell.our_value);
    EXPECT_FALSE(cell.our_interval);
    EXPECT_TRUE(cell.decided_by.empty());
  }
  EXPECT_EQ(not_testable, 1);
}

TEST(Table2Cells, AFailedOrUntimedRowIsNotTestableAndSaysWhy) {
  for (const Outcome outcome :
       {Outcome::mismatch, Outcome::launch_failed, Outcome::unsupported, Outcome::not_verified}) {
    for (const char* kernel : {"branch_tree", "shared_lut"}) {
      auto rows = rows_as_published();
      change_rows(rows, of_kernel(kernel), [&](Record& row) { make_failed(row, outcome); });
      for (const auto& cell : table_cells(rows)) {
        EXPECT_EQ(cell.verdict, Verdict::not_testable);
        EXPECT_EQ(cell.reason, fmt::format("{} on {} at batch {} is {}, not timed", kernel,
                                           cell.cell["model"].get<std::string>(),
                                           cell.cell["batch"].get<int>(), name(outcome)));
      }
    }
  }
}

TEST(Table2Cells, ADeviatingKernelNeverStandsForThePapers) {
  auto rows = rows_as_published();
  change_rows(rows, of_kernel("shared_lut"),
              [](Record& row) { row.outcome = Outcome::deviation_as_declared; });
  for (const auto& cell : table_cells(rows)) {
    EXPECT_EQ(cell.verdict, Verdict::not_testable);
  }
}

TEST(Table2Cells, NoRowsAtAllAreNotTestable) {
  const auto cells = verdicts_on("kernel-speedup", {});
  EXPECT_EQ(cells.size(), 4u * 7u);
  for (const auto& cell : cells) EXPECT_EQ(cell.verdict, Verdict::not_testable);
}

TEST(Table2Averages, StandBehindTheCellsOfTheirModel) {
  const auto verdicts = verdicts_on("kernel-speedup", rows_as_published());
  ASSERT_EQ(verdicts.size(), 4u * 7u);
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    EXPECT_EQ(verdicts[i].cell.at("model"), model_columns[i / 7].model);
    const nlohmann::json batch =
        i % 7 == 6 ? nlohmann::json("average") : nlohmann::json(batches[i % 7]);
    EXPECT_EQ(verdicts[i].cell.at("batch"), batch);
  }
}

TEST(Table2Averages, AreThePapersValuesAgainstTheMeansOfOurCells) {
  const auto rows = rows_as_published();
  const auto cells = table_cells(rows);
  const auto averages = table_averages(rows);
  ASSERT_EQ(averages.size(), 4u);
  const double papers[] = {2.1, 2.1, 2.19, 2.04};
  for (std::size_t model = 0; model < 4; ++model) {
    const VerdictRecord& average = averages[model];
    double value = 0, low = 0, high = 0;
    std::vector<std::string> keys;
    for (std::size_t i = 6 * model; i < 6 * model + 6; ++i) {
      value += *cells[i].our_value / 6;
      low += cells[i].our_interval->first / 6;
      high += cells[i].our_interval->second / 6;
      keys.insert(keys.end(), cells[i].decided_by.begin(), cells[i].decided_by.end());
    }
    EXPECT_EQ(average.source_value, papers[model]);
    EXPECT_NEAR(*average.our_value, value, 1e-9);
    EXPECT_NEAR(average.our_interval->first, low, 1e-9);
    EXPECT_NEAR(average.our_interval->second, high, 1e-9);
    EXPECT_EQ(average.verdict, Verdict::reproduced) << average.reason;
    EXPECT_EQ(average.tolerance, "within 10 % of the source's value");
    EXPECT_EQ(average.unit, "x");
    EXPECT_EQ(average.decided_by, keys);
  }
}

TEST(Table2Averages, OnePastTheToleranceIsNotReproduced) {
  auto rows = rows_as_published();
  change_rows(
      rows,
      [](const Record& row) {
        return row.problem.at("model") == "qwen3-32b" && row.variant.name == "shared_lut";
      },
      [](Record& row) {
        row.samples_us = {2100, 2100, 2100};
      });
  for (const auto& average : table_averages(rows)) {
    if (average.cell.at("model") == "qwen3-32b") {
      EXPECT_EQ(average.verdict, Verdict::not_reproduced);
      EXPECT_NEAR(*average.our_value, 1.0, 1e-9);
      EXPECT_EQ(average.reason, "-54.3 % from the source's value, 10 % allowed");
    } else {
      EXPECT_EQ(average.verdict, Verdict::reproduced) << average.reason;
    }
  }
}

TEST(Table2Averages, WithoutOneCellAreNotTestableForItsReason) {
  auto rows = rows_as_published();
  std::erase_if(rows,
                [](const Record& row) { return row.key == "llama-3.3-70b/batch4/shared_lut"; });
  const VerdictRecord average = table_averages(rows).at(3);
  EXPECT_EQ(average.verdict, Verdict::not_testable);
  EXPECT_EQ(average.reason, "shared_lut did not run on llama-3.3-70b at batch 4");
  EXPECT_EQ(average.source_value, 2.04);
  EXPECT_FALSE(average.our_value);
  EXPECT_FALSE(average.our_interval);
  EXPECT_TRUE(average.decided_by.empty());
  EXPECT_EQ(table_averages(rows).at(2).verdict, Verdict::reproduced);
}

}  // namespace
}  // namespace reprolab::table2
