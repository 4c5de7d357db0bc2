// From the rows of the big matrix to the post's claims: which of them hold here.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "experiments/harness/result_file.hpp"

namespace reprolab::transpose {

/// `records`: of the matrix pass, with random and with constant data. `theoretical_gb_s`: of the
/// GPU, where it says so. `published`: data/published/published.json.
/// A claim whose rows are missing or wrong is "not testable" with the reason.
std::vector<VerdictRecord> decide(const std::vector<Record>& records,
                                  std::optional<double> theoretical_gb_s,
                                  const nlohmann::json& published);

}  // namespace reprolab::transpose
