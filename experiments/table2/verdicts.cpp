#include "experiments/table2/verdicts.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>

#include "experiments/harness/statistics.hpp"
#include "experiments/harness/verdict.hpp"
#include "experiments/table2/protocol.hpp"

namespace reprolab::table2 {
namespace {

using nlohmann::json;

/// The rows of one replay, by model, batch and kernel.
class Rows {
 public:
  Rows(const std::vector<Record>& records, const std::vector<InstrumentCheck>& checks)
      : records_(records), checks_(checks) {}

  const Record* find(std::string_view model, int batch, std::string_view kernel) const {
    const auto found = std::ranges::find_if(records_, [&](const Record& record) {
      return record.variant.name == kernel && record.problem.at("model") == model &&
             record.problem.at("batch") == batch;
    });
    return found == records_.end() ? nullptr : &*found;
  }

  /// Why a comparison cannot be made; empty when it can: both rows are there and bit-exact.
  std::string obstacle(std::string_view model, int batch,
                       std::initializer_list<std::string_view> kernels) const {
    for (const auto kernel : kernels) {
      const Record* row = find(model, batch, kernel);
      if (row == nullptr)
        return fmt::format("{} did not run on {} at batch {}", kernel, model, batch);
      if (row->outcome != Outcome::bit_exact || row->samples_us.empty()) {
        return fmt::format("{} on {} at batch {} is {}, not timed", kernel, model, batch,
                           name(row->outcome));
      }
      for (const auto& check : checks_) {
        if (!check.passed() && check.name.starts_with(fmt::format("{}/{}:", model, kernel))) {
          return fmt::format("the instruments disagree: {}, {:+.1f} %", check.name,
                             check.difference_percent());
        }
      }
    }
    return "";
  }

  const std::vector<Record>& all() const { return records_; }

 private:
  const std::vector<Record>& records_;
  const std::vector<InstrumentCheck>& checks_;
};

VerdictRecord start(const json& published, const std::string& id, const std::string& unit) {
  return start_verdict(published, "paper", id, unit);
}

/// One cell of Table II.
VerdictRecord decide_cell(const Rows& rows, const json& published, const ModelColumn& column,
                          int batch, double source_value) {
  auto verdict = start(published, "kernel-speedup", "x");
  verdict.cell = {{"model", column.model}, {"batch", batch}};
  verdict.source_value = source_value;
  verdict.tolerance = within(tolerance_percent);
  verdict.reason = rows.obstacle(column.model, batch, {baseline, papers_kernel});
  if (!verdict.reason.empty()) return verdict;
  const Record& slow = *rows.find(column.model, batch, baseline);
  const Record& fast = *rows.find(column.model, batch, papers_kernel);
  set_ours(verdict, ratio(slow.samples_us, fast.samples_us));
  verdict.decided_by = {slow.key, fast.key};
  judge_within(verdict, tolerance_percent);
  return verdict;
}

/// The table's last row: the mean over the batches, as in the paper.
VerdictRecord decide_average(const std::vector<VerdictRecord>& cells, const json& published,
                             const ModelColumn& column, double source_value) {
  auto verdict = start(published, "kernel-speedup", "x");
  verdict.cell = {{"model", column.model}, {"batch", "average"}};
  verdict.source_value = source_value;
  verdict.tolerance = within(tolerance_percent);
  Ranged mean;
  for (const auto& cell : cells) {
    if (!cell.our_value) {
      verdict.reason = cell.reason;
      return verdict;
    }
    const double share = 1.0 / static_cast<double>(cells.size());
    mean.value += share * *cell.our_value;
    mean.low += share * cell.our_interval->first;
    mean.high += share * cell.our_interval->second;
  }
  for (const auto& cell : cells) {
    verdict.decided_by.insert(verdict.decided_by.end(), cell.decided_by.begin(),
                              cell.decided_by.end());
  }
  set_ours(verdict, mean);
  judge_within(verdict, tolerance_percent);
  return verdict;
}

std::vector<VerdictRecord> decide_table(const Rows& rows, const json& published) {
  const auto& table = published.at("paper").at("table2_speedup");
  const auto& columns = table.at("columns");
  std::vector<VerdictRecord> verdicts;
  for (const auto& column : model_columns) {
    const auto at =
        static_cast<std::size_t>(std::ranges::find(columns, json(column.column)) - columns.begin());
    std::vector<VerdictRecord> cells;
    for (const auto& row : table.at("rows")) {
      cells.push_back(
          decide_cell(rows, published, column, row.at(0).get<int>(), row.at(at).get<double>()));
    }
    verdicts.insert(verdicts.end(), cells.begin(), cells.end());
    verdicts.push_back(
        decide_average(cells, published, column, table.at("average").at(at - 1).get<double>()));
  }
  return verdicts;
}

/// Dequantization's share of dequantize + product.
VerdictRecord decide_share(const Rows& rows, const json& published) {
  auto verdict = start(published, "qmatmul-72", "%");
  const json& claim = published_claim(published, "paper", "qmatmul-72");
  verdict.cell = claim.at("cell");
  verdict.source_value = claim.at("value").get<double>();
  verdict.tolerance = within(tolerance_percent);
  const std::string model = verdict.cell.at("model");
  const int batch = verdict.cell.at("batch");
  verdict.reason = rows.obstacle(model, batch, {baseline});
  if (!verdict.reason.empty()) return verdict;
  const Record& row = *rows.find(model, batch, baseline);
  if (row.product_samples_us.size() != row.samples_us.size()) {
    throw std::logic_error(row.key + ": a pass has a time for dequantization or product alone");
  }
  std::vector<double> shares;
  for (std::size_t i = 0; i < row.samples_us.size(); ++i) {
    shares.push_back(100.0 * row.samples_us[i] / (row.samples_us[i] + row.product_samples_us[i]));
  }
  const Summary summary = summarize(shares);
  set_ours(verdict, {summary.median, summary.low(), summary.high()});
  verdict.decided_by = {row.key};
  judge_within(verdict, tolerance_percent);
  verdict.reason += "; the replay holds products alone, no activation transfers";
  return verdict;
}

/// The baseline's time over the batches of one model, greatest over smallest.
VerdictRecord decide_batch_invariance(const Rows& rows, const json& published,
                                      const ModelColumn& column) {
  auto verdict = start(published, "batch-invariant", "%");
  verdict.cell = {{"model", column.model}};
  verdict.tolerance =
      fmt::format("greatest and smallest median within {:g} %", batch_tolerance_percent);
  std::vector<double> medians;
  for (const int batch : batches) {
    verdict.reason = rows.obstacle(column.model, batch, {baseline});
    if (!verdict.reason.empty()) return verdict;
    const Record& row = *rows.find(column.model, batch, baseline);
    medians.push_back(summarize(row.samples_us).median);
    verdict.decided_by.push_back(row.key);
  }
  const Summary summary = summarize(medians);
  const double spread = 100.0 * (summary.max / summary.min - 1.0);
  verdict.our_value = spread;
  verdict.verdict =
      spread <= batch_tolerance_percent ? Verdict::reproduced : Verdict::not_reproduced;
  verdict.reason =
      fmt::format("{:.2f} to {:.2f} ms a forward pass over batches {} to {}", 1e-3 * summary.min,
                  1e-3 * summary.max, batches.front(), batches.back());
  return verdict;
}

/// Times of `slow` over `fast` in every model and batch: the median ratio with the widest interval,
/// and in how many cells which of the two was faster beyond the intervals.
struct Pooled {
  Ranged ratio;
  std::size_t cells = 0, slower = 0, faster = 0;
  std::vector<std::string> decided_by;
  std::string obstacle;  ///< Why there is no ratio; empty when there is.
};

Pooled pool(const Rows& rows, std::string_view slow, std::string_view fast) {
  Pooled pooled;
  std::vector<double> values, lows, highs;
  for (const auto& column : model_columns) {
    for (const int batch : batches) {
      pooled.obstacle = rows.obstacle(column.model, batch, {slow, fast});
      if (!pooled.obstacle.empty()) return pooled;
      const Record& a = *rows.find(column.model, batch, slow);
      const Record& b = *rows.find(column.model, batch, fast);
      const Ranged one = ratio(a.samples_us, b.samples_us);
      values.push_back(one.value);
      lows.push_back(one.low);
      highs.push_back(one.high);
      ++pooled.cells;
      pooled.slower += one.low > 1.0;
      pooled.faster += one.high < 1.0;
      pooled.decided_by.insert(pooled.decided_by.end(), {a.key, b.key});
    }
  }
  pooled.ratio = {summarize(values).median, summarize(lows).min, summarize(highs).max};
  return pooled;
}

std::string describe(const Pooled& pooled, std::string_view slow, std::string_view fast) {
  return fmt::format(
      "time of {} over {}: slower in {} of {} cells, faster in {}, no difference seen in {}", slow,
      fast, pooled.slower, pooled.cells, pooled.faster,
      pooled.cells - pooled.slower - pooled.faster);
}

/// Puts the pooled ratio into a verdict; false, with the reason, where there is none.
bool show(VerdictRecord& verdict, const Pooled& pooled) {
  verdict.reason = pooled.obstacle;
  if (!verdict.reason.empty()) return false;
  set_ours(verdict, pooled.ratio);
  verdict.decided_by = pooled.decided_by;
  return true;
}

/// "One thread filling the table beats a cooperative fill": in every model and batch.
VerdictRecord decide_fill(const Rows& rows, const json& published) {
  constexpr std::string_view slow = "shared_lut_cooperative";
  auto verdict = start(published, "single-thread-fill", "x");
  verdict.tolerance = "the cooperative fill slower in every model and batch, beyond the intervals";
  const Pooled pooled = pool(rows, slow, papers_kernel);
  if (!show(verdict, pooled)) return verdict;
  verdict.verdict = pooled.slower == pooled.cells ? Verdict::reproduced : Verdict::not_reproduced;
  verdict.reason = describe(pooled, slow, papers_kernel);
  return verdict;
}

/// A claim on code size and instruction caches, which times alone do not decide; the ratio is
/// shown.
VerdictRecord decide_immediates(const Rows& rows, const json& published) {
  constexpr std::string_view slow = "shared_lut_immediates";
  auto verdict = start(published, "immediates-icache", "x");
  verdict.tolerance = "instruction-cache counters, which this run does not take";
  const Pooled pooled = pool(rows, slow, papers_kernel);
  if (!show(verdict, pooled)) return verdict;
  verdict.reason = "needs counters; " + describe(pooled, slow, papers_kernel);
  return verdict;
}

/// The claim that the baseline reads a table from global memory: a matter of its code, not of
/// times. A kernel that does read one there is timed beside it, for what it is worth.
VerdictRecord decide_premise(const Rows& rows, const json& published) {
  auto verdict = start(published, "baseline-reads-lut-from-global", "x");
  verdict.tolerance = "the code of bitsandbytes 0.47.0";
  const Pooled pooled = pool(rows, "global_lut", papers_kernel);
  if (!show(verdict, pooled)) return verdict;
  verdict.verdict = Verdict::premise_false;
  verdict.reason = fmt::format(
      "bitsandbytes 0.47.0 holds the 16 values as immediates of a branch tree and reads no table "
      "(kernels/nf4/branch_tree.cu; the tree is in the paper's sections III-C and V-A as well); "
      "beside it, a kernel that does read a table from global memory takes {:.2f} times as long as "
      "the paper's",
      pooled.ratio.value);
  return verdict;
}

/// Algorithm 1 as printed: its output against the reference, in every row; the worst decides.
VerdictRecord decide_algorithm1(const Rows& rows, const json& published) {
  auto verdict = start(published, "algorithm-1", "");
  verdict.tolerance = "every bit of the output equals the reference";
  verdict.reason = "shared_lut_algorithm1 did not run";
  for (const Record& row : rows.all()) {
    if (row.variant.name != "shared_lut_algorithm1") continue;
    if (!may_be_timed(row.outcome)) {  // our fault, which decides nothing about the paper
      verdict.verdict = Verdict::not_testable;
      verdict.decided_by = {row.key};
      verdict.reason = fmt::format("{}: {}", name(row.outcome), row.reason);
      return verdict;
    }
    if (verdict.verdict == Verdict::not_reproduced) continue;
    verdict.decided_by = {row.key};
    const bool wrong = row.outcome == Outcome::deviation_as_declared;
    verdict.verdict = wrong ? Verdict::not_reproduced : Verdict::reproduced;
    verdict.reason =
        wrong ? "as printed the output is wrong: " + row.reason : "equal to the reference";
  }
  return verdict;
}

/// Bit-exact outputs of the paper's kernel, on every weight of every model.
VerdictRecord decide_exactness(const Rows& rows, const json& published) {
  auto verdict = start(published, "token-exact", "");
  verdict.tolerance = "every bit of every dequantized weight equals the reference";
  std::int64_t weights = 0;
  for (const auto& column : model_columns) {
    const Record* row = rows.find(column.model, batches.front(), papers_kernel);
    if (row == nullptr) {
      verdict.reason = fmt::format("{} did not run on {}", papers_kernel, column.model);
      return verdict;
    }
    verdict.decided_by.push_back(row->key);
    if (row->outcome != Outcome::bit_exact) {  // our fault, which decides nothing about the paper
      verdict.reason = fmt::format("{} on {}: {}", papers_kernel, column.model, name(row->outcome));
      return verdict;
    }
    weights += row->problem.at("weights_resident").get<std::int64_t>();
  }
  verdict.verdict = Verdict::reproduced;
  verdict.reason = fmt::format(
      "{:.1f} billion weights compared, before and after timing, in copies of one matrix of normal "
      "values a size; equal weights give equal tokens",
      1e-9 * static_cast<double>(weights));
  return verdict;
}

}  // namespace

std::vector<VerdictRecord> decide(const std::vector<Record>& records,
                                  const std::vector<InstrumentCheck>& checks,
                                  const json& published) {
  const Rows rows(records, checks);
  auto verdicts = decide_table(rows, published);
  verdicts.push_back(decide_share(rows, published));
  for (const auto& column : model_columns) {
    verdicts.push_back(decide_batch_invariance(rows, published, column));
  }
  verdicts.push_back(decide_premise(rows, published));
  verdicts.push_back(decide_fill(rows, published));
  verdicts.push_back(decide_immediates(rows, published));
  verdicts.push_back(decide_algorithm1(rows, published));
  verdicts.push_back(decide_exactness(rows, published));
  return verdicts;
}

}  // namespace reprolab::table2
