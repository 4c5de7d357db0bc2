// The hardware counters to read: data/counters.json, and a user's additions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace reprolab::profiling {

/// One column of tables of counters.
struct Counter {
  std::string id;                  ///< The metric's name in result files.
  std::string unit;                ///< Empty: CUPTI's own.
  std::vector<std::string> names;  ///< CUPTI's names, tried in this order.
};

/// Reads data/counters.json.
std::vector<Counter> parse_counters(const nlohmann::json& table);

/// Adds the counters that a user chose, comma-separated ids of the table or metrics of CUPTI, to
/// `table`; the id of a metric of CUPTI is its name. Returns the ids of all chosen counters. Throws
/// std::invalid_argument for anything else, and for times: a kernel that is replayed for its
/// counters is not timed.
std::vector<std::string> add_chosen(std::vector<Counter>& table, std::string_view chosen);

}  // namespace reprolab::profiling
