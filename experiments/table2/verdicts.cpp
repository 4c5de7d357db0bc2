#include "experiments/table2/verdicts.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "experiments/harness/errors.hpp"
#include "experiments/harness/statistics.hpp"
#include "experiments/table2/protocol.hpp"

namespace reprolab::table2 {
namespace {

using nlohmann::json;

/// A value with its interval: the quartiles of its samples.
struct Ranged {
  double value = 0, low = 0, high = 0;
};

Ranged ratio(const std::vector<double>& over, const std::vector<double>& under) {
  const Summary a = summarize(over), b = summarize(under);
  return {a.median / b.median, a.lower_quartile / b.upper_quartile,
          a.upper_quartile / b.lower_quartile};
}

/// The rows of one replay, by model, batch and kernel.
class Rows {
 public:
  explicit Rows(const std::vector<Record>& records) : records_(records) {}

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
    }
    return "";
  }

  const std::vector<Record>& all() const { return records_; }

 private:
  const std::vector<Record>& records_;
};

/// A claim as data/published has it.
const json& published_claim(const json& published, std::string_view id) {
  for (const auto& claim : published.at("paper").at("claims")) {
    if (claim.at("id") == id) return claim;
  }
  throw UsageError(fmt::format("data/published: the paper has no claim '{}'", id));
}

VerdictRecord start(const json& published, const std::string& id, const std::string& unit) {
  VerdictRecord verdict;
  verdict.claim = id;
  verdict.source = "paper";
  verdict.cell = nullptr;
  verdict.text = published_claim(published, id).at("text");
  verdict.unit = unit;
  return verdict;
}

void set_ours(VerdictRecord& verdict, const Ranged& ours) {
  verdict.our_value = ours.value;
  verdict.our_interval = {ours.low, ours.high};
}

std::string within(double percent) {
  return fmt::format("within {:g} % of the source's value", percent);
}

void judge_within(VerdictRecord& verdict, double percent) {
  const double difference = *verdict.difference_percent();
  verdict.verdict = std::abs(difference) <= percent ? Verdict::reproduced : Verdict::not_reproduced;
  verdict.reason =
      fmt::format("{:+.1f} % from the source's value, {:g} % allowed", difference, percent);
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

std::vector<VerdictRecord> decide_table(const Rows& rows, const json& published) {
  const auto& table = published.at("paper").at("table2_speedup");
  const auto& columns = table.at("columns");
  std::vector<VerdictRecord> verdicts;
  for (const auto& column : model_columns) {
    const auto at = std::ranges::find(columns, json(column.column)) - columns.begin();
    for (const auto& row : table.at("rows")) {
      verdicts.push_back(decide_cell(rows, published, column, row.at(0).get<int>(),
                                     row.at(static_cast<std::size_t>(at)).get<double>()));
    }
  }
  return verdicts;
}

/// Dequantization's share of dequantize + product.
VerdictRecord decide_share(const Rows& rows, const json& published) {
  auto verdict = start(published, "qmatmul-72", "%");
  const json& claim = published_claim(published, "qmatmul-72");
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
  set_ours(verdict, {summary.median, summary.lower_quartile, summary.upper_quartile});
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

/// Times of `slow` over `fast`, all models and batches pooled: the median ratio and its widest
/// interval. Returns why not when a row is missing.
std::string pooled_ratio(const Rows& rows, std::string_view slow, std::string_view fast,
                         Ranged& pooled, std::vector<std::string>& decided_by) {
  std::vector<double> values, lows, highs;
  for (const auto& column : model_columns) {
    for (const int batch : batches) {
      const std::string obstacle = rows.obstacle(column.model, batch, {slow, fast});
      if (!obstacle.empty()) return obstacle;
      const Record& a = *rows.find(column.model, batch, slow);
      const Record& b = *rows.find(column.model, batch, fast);
      const Ranged one = ratio(a.samples_us, b.samples_us);
      values.push_back(one.value);
      lows.push_back(one.low);
      highs.push_back(one.high);
      decided_by.insert(decided_by.end(), {a.key, b.key});
    }
  }
  pooled = {summarize(values).median, summarize(lows).min, summarize(highs).max};
  return "";
}

/// A claim that `slow` takes longer than `fast`.
VerdictRecord decide_faster(const Rows& rows, const json& published, const std::string& id,
                            std::string_view slow, std::string_view fast) {
  auto verdict = start(published, id, "x");
  verdict.tolerance = "the intervals of all ratios above 1";
  Ranged ours;
  verdict.reason = pooled_ratio(rows, slow, fast, ours, verdict.decided_by);
  if (!verdict.reason.empty()) return verdict;
  set_ours(verdict, ours);
  verdict.verdict = ours.low > 1.0 ? Verdict::reproduced : Verdict::not_reproduced;
  const char* seen = ours.low > 1.0    ? "slower in every model and batch"
                     : ours.high < 1.0 ? "faster in every model and batch"
                                       : "no difference seen";
  verdict.reason = fmt::format("time of {} over {}: {}", slow, fast, seen);
  return verdict;
}

/// Where the table sits: the claim's premise is that the baseline reads one from global memory.
VerdictRecord decide_premise(const Rows& rows, const json& published) {
  auto verdict = start(published, "baseline-reads-lut-from-global", "x");
  verdict.tolerance = "the baseline's code, and a table in global memory timed beside it";
  Ranged ours;
  verdict.reason = pooled_ratio(rows, "global_lut", papers_kernel, ours, verdict.decided_by);
  if (!verdict.reason.empty()) return verdict;
  set_ours(verdict, ours);
  verdict.verdict = Verdict::premise_false;
  verdict.reason = fmt::format(
      "bitsandbytes 0.47.0 holds the 16 values as immediates of a branch tree "
      "(kernels/nf4/branch_tree.cu) and reads no table at all; a kernel that does read one from "
      "global memory takes {:.2f} times as long as the paper's",
      ours.value);
  return verdict;
}

/// Algorithm 1 as printed: its output against the reference.
VerdictRecord decide_algorithm1(const Rows& rows, const json& published) {
  auto verdict = start(published, "algorithm-1", "");
  verdict.tolerance = "every bit of the output equals the reference";
  verdict.reason = "shared_lut_algorithm1 did not run";
  for (const Record& row : rows.all()) {
    if (row.variant.name != "shared_lut_algorithm1") continue;
    verdict.decided_by = {row.key};
    verdict.reason = row.reason;
    if (row.outcome == Outcome::deviation_as_declared) {
      verdict.verdict = Verdict::premise_false;
      verdict.reason = "as printed the output is wrong: " + row.reason;
    } else if (row.outcome == Outcome::bit_exact) {
      verdict.verdict = Verdict::reproduced;
    }
    return verdict;
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
      "{:.1f} billion weights compared, before and after timing; equal weights give equal tokens",
      1e-9 * static_cast<double>(weights));
  return verdict;
}

}  // namespace

std::vector<VerdictRecord> decide(const std::vector<Record>& records, const json& published) {
  const Rows rows(records);
  auto verdicts = decide_table(rows, published);
  verdicts.push_back(decide_share(rows, published));
  for (const auto& column : model_columns) {
    verdicts.push_back(decide_batch_invariance(rows, published, column));
  }
  verdicts.push_back(decide_premise(rows, published));
  verdicts.push_back(decide_faster(rows, published, "single-thread-fill", "shared_lut_cooperative",
                                   papers_kernel));
  verdicts.push_back(
      decide_faster(rows, published, "immediates-icache", "shared_lut_immediates", papers_kernel));
  verdicts.push_back(decide_algorithm1(rows, published));
  verdicts.push_back(decide_exactness(rows, published));
  return verdicts;
}

}  // namespace reprolab::table2
