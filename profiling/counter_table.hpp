// Which hardware counters are read: data/counters.json, and what a user adds.
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
  std::string meaning;             ///< In one line.
  std::vector<std::string> names;  ///< CUPTI's names, tried in this order.
};

/// Reads data/counters.json. Throws std::invalid_argument if it is not as its schema says.
std::vector<Counter> parse_counters(const nlohmann::json& table);

/// Adds the counters that a user chose, ids of the table or metrics of CUPTI between commas, to
/// `table`; those of CUPTI keep its name as their id. Returns the ids of all that were chosen.
/// Throws std::invalid_argument for what is neither, and for times: a kernel that is replayed for
/// its counters is not timed.
std::vector<std::string> add_chosen(std::vector<Counter>& table, std::string_view chosen);

/// The words of a list that is separated by commas.
std::vector<std::string> split_list(std::string_view list);

}  // namespace reprolab::profiling
