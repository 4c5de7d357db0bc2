// Rows of a replay made by hand: what the verdicts are drawn from.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "experiments/harness/result_file.hpp"
#include "experiments/table2/protocol.hpp"
#include "experiments/table2/verdicts.hpp"

namespace reprolab::table2 {

inline nlohmann::json published() {
  return read_json(project_root() / "data/published/published.json");
}

/// The paper's speed-up of one model (ours) and batch.
inline double papers_speedup(const std::string& model, int batch) {
  const auto table = published().at("paper").at("table2_speedup");
  const auto column = std::ranges::find(model_columns, model, &ModelColumn::model)->column;
  const auto at =
      std::ranges::find(table.at("columns"), nlohmann::json(column)) - table.at("columns").begin();
  for (const auto& row : table.at("rows")) {
    if (row.at(0) == batch) return row.at(static_cast<std::size_t>(at));
  }
  throw std::out_of_range("no such batch");
}

inline Record make_row(const std::string& model, int batch, const std::string& kernel,
                       std::vector<double> samples_us) {
  Record row;
  row.key = fmt::format("{}/batch{}/{}", model, batch, kernel);
  row.variant.name = kernel;
  row.problem = {{"model", model}, {"batch", batch}, {"weights_resident", 1'000'000'000}};
  row.outcome = Outcome::bit_exact;
  row.product_samples_us = std::vector<double>(samples_us.size(), 276.0);
  row.samples_us = std::move(samples_us);
  return row;
}

/// Rows of a replay in which every claim holds: the paper's kernel takes 1000 us and the baseline
/// what the paper says; at Qwen's batch 8, products take 276 us for each 724 us of dequantization.
inline std::vector<Record> rows_as_published() {
  std::vector<Record> rows;
  const auto add = [&](const std::string& model, int batch, const char* kernel, double us) {
    rows.push_back(make_row(model, batch, kernel, {us, us * 0.999, us * 1.001}));
  };
  for (const auto& column : model_columns) {
    for (const int batch : batches) {
      // The batch does not change the baseline's time, so the other kernel's carries the ratio.
      const double fast = 1000.0;
      add(column.model, batch, "branch_tree", 2100.0);
      add(column.model, batch, "shared_lut", 2100.0 / papers_speedup(column.model, batch));
      add(column.model, batch, "shared_lut_cooperative", 1.2 * fast);
      add(column.model, batch, "shared_lut_immediates", 1.2 * fast);
      add(column.model, batch, "global_lut", 1.3 * fast);
      add(column.model, batch, "shared_lut_algorithm1", fast);
      rows.back().outcome = Outcome::deviation_as_declared;
      rows.back().reason = "7 of 8 weights differ";
    }
  }
  for (Record& row : rows) {
    for (std::size_t i = 0; i < row.samples_us.size(); ++i) {
      row.product_samples_us[i] = row.samples_us[i] * 27.6 / 72.4;
    }
  }
  return rows;
}

/// Calls `change` on every row that `selects`.
inline void change_rows(std::vector<Record>& rows,
                        const std::function<bool(const Record&)>& selects,
                        const std::function<void(Record&)>& change) {
  for (Record& row : rows) {
    if (selects(row)) change(row);
  }
}

inline std::function<bool(const Record&)> of_kernel(const std::string& kernel) {
  return [kernel](const Record& row) { return row.variant.name == kernel; };
}

inline void make_failed(Record& row, Outcome outcome) {
  row.outcome = outcome;
  row.reason = "1 of 8 weights differ";
  row.samples_us.clear();
  row.product_samples_us.clear();
}

/// The verdicts on one claim, in order.
inline std::vector<VerdictRecord> verdicts_on(const std::string& claim,
                                              const std::vector<Record>& rows,
                                              const std::vector<InstrumentCheck>& checks = {}) {
  auto verdicts = decide(rows, checks, published());
  std::erase_if(verdicts, [&](const VerdictRecord& verdict) { return verdict.claim != claim; });
  return verdicts;
}

/// Table II's cells: the verdicts on the speed-up but for the averages.
inline std::vector<VerdictRecord> table_cells(const std::vector<Record>& rows) {
  auto cells = verdicts_on("kernel-speedup", rows);
  std::erase_if(cells, [](const auto& cell) { return cell.cell.at("batch").is_string(); });
  return cells;
}

/// Its last row.
inline std::vector<VerdictRecord> table_averages(const std::vector<Record>& rows) {
  auto averages = verdicts_on("kernel-speedup", rows);
  std::erase_if(averages, [](const auto& cell) { return cell.cell.at("batch") != "average"; });
  return averages;
}

/// A check of the instruments on one kernel, `percent` apart where 1 % is allowed.
inline InstrumentCheck make_check(const std::string& model, const std::string& kernel,
                                  double percent) {
  return {fmt::format("{}/{}: events against activity", model, kernel), 100 + percent, 100, "us",
          1};
}

}  // namespace reprolab::table2
