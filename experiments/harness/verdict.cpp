#include "experiments/harness/verdict.hpp"

#include <fmt/core.h>

#include <cmath>

#include "experiments/harness/errors.hpp"
#include "experiments/harness/statistics.hpp"

namespace reprolab {
namespace {

std::string optional_number(const std::optional<double>& value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

/// "batch 8, qwen3-32b": words as they are, numbers with their names.
std::string cell_text(const nlohmann::json& cell) {
  std::string text;
  if (!cell.is_object()) return text;
  for (const auto& [name, value] : cell.items()) {
    if (!text.empty()) text += ", ";
    text += value.is_string() ? value.get<std::string>() : fmt::format("{} {}", name, value.dump());
  }
  return text;
}

}  // namespace

Ranged ratio(const std::vector<double>& over, const std::vector<double>& under) {
  const Summary a = summarize(over), b = summarize(under);
  return {a.median / b.median, a.low() / b.high(), a.high() / b.low()};
}

const nlohmann::json& published_claim(const nlohmann::json& published, const std::string& source,
                                      const std::string& id) {
  for (const auto& claim : published.at(source).at("claims")) {
    if (claim.at("id") == id) return claim;
  }
  throw UsageError(fmt::format("data/published: '{}' has no claim '{}'", source, id));
}

VerdictRecord start_verdict(const nlohmann::json& published, const std::string& source,
                            const std::string& id, const std::string& unit) {
  VerdictRecord verdict;
  verdict.claim = id;
  verdict.source = source;
  verdict.cell = nullptr;
  verdict.text = published_claim(published, source, id).at("text");
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

void print_verdicts(const std::vector<VerdictRecord>& verdicts,
                    const std::function<bool(const VerdictRecord&)>& shows_reason) {
  fmt::print("\n{:<32} {:<26} {:>8} {:>8} {:>8}  {}\n", "claim", "cell", "source", "ours", "diff.",
             "verdict");
  for (const auto& verdict : verdicts) {
    fmt::print("{:<32} {:<26} {:>8} {:>8} {:>8}  {}\n", verdict.claim, cell_text(verdict.cell),
               optional_number(verdict.source_value, "{:.2f}"),
               optional_number(verdict.our_value, "{:.2f}"),
               optional_number(verdict.difference_percent(), "{:+.1f}%"), name(verdict.verdict));
    if (shows_reason(verdict) || verdict.verdict == Verdict::not_testable) {
      fmt::print("    {}\n", verdict.reason);
    }
  }
}

}  // namespace reprolab
