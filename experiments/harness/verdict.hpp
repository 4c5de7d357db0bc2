// What the experiments share when they decide claims: values with intervals, and verdicts that
// begin from what data/published says.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/harness/result_file.hpp"

namespace reprolab {

/// A value with its interval.
struct Ranged {
  double value = 0, low = 0, high = 0;
};

/// Median of `over` by that of `under`; from the one's lower over the other's upper end to the
/// reverse.
Ranged ratio(const std::vector<double>& over, const std::vector<double>& under);

/// A claim as `published` (data/published/published.json) has it under `source`. UsageError where
/// it does not.
const nlohmann::json& published_claim(const nlohmann::json& published, const std::string& source,
                                      const std::string& id);

/// A verdict that has the claim's words and nothing else yet: not testable.
VerdictRecord start_verdict(const nlohmann::json& published, const std::string& source,
                            const std::string& id, const std::string& unit);

void set_ours(VerdictRecord& verdict, const Ranged& ours);

/// "within 10 % of the source's value", and the verdict by it; both values must be there.
std::string within(double percent);
void judge_within(VerdictRecord& verdict, double percent);

/// Source's value | ours | difference | verdict, one line a claim and cell; the reason beneath it
/// where `shows_reason` says so, and wherever nothing could be decided.
void print_verdicts(const std::vector<VerdictRecord>& verdicts,
                    const std::function<bool(const VerdictRecord&)>& shows_reason);

}  // namespace reprolab
