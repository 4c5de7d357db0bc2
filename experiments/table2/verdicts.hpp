// From the rows of a replay to the paper's claims: which of them hold here.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "experiments/harness/result_file.hpp"

namespace reprolab::table2 {

/// Verdicts on Table II cell by cell, and on the paper's other claims that times alone decide.
/// `records`, `checks`: of the replay pass; where its instruments disagree, a time decides nothing.
/// `published`: data/published/published.json.
/// A claim whose rows are missing, or not bit-exact, is "not testable" with the reason.
std::vector<VerdictRecord> decide(const std::vector<Record>& records,
                                  const std::vector<InstrumentCheck>& checks,
                                  const nlohmann::json& published);

}  // namespace reprolab::table2
