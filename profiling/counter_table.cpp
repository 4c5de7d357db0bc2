#include "profiling/counter_table.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <stdexcept>

namespace reprolab::profiling {
namespace {

/// Whether `word` has the form of a CUPTI metric, "unit__name", in the letters that a result file
/// allows in a metric's name.
bool could_be_a_metric(std::string_view word) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  };
  return word.size() <= 200 && word.find("__") != word.npos && word[0] >= 'a' && word[0] <= 'z' &&
         std::ranges::all_of(word, allowed);
}

std::vector<std::string> split_list(std::string_view list) {
  std::vector<std::string> words;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find_first_of(", "), list.size());
    if (end > 0) words.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return words;
}

}  // namespace

std::vector<Counter> parse_counters(const nlohmann::json& table) {
  std::vector<Counter> counters;
  for (const auto& entry : table.at("counters")) {
    counters.push_back({entry.at("id"), entry.at("unit"), entry.at("metrics")});
  }
  return counters;
}

std::vector<std::string> add_chosen(std::vector<Counter>& table, std::string_view chosen) {
  std::vector<std::string> ids = split_list(chosen);
  if (ids.empty()) throw std::invalid_argument("--metrics: name at least one metric");
  for (const std::string& id : ids) {
    if (std::ranges::find(table, id, &Counter::id) != table.end()) continue;
    if (!could_be_a_metric(id)) {
      throw std::invalid_argument(fmt::format(
          "--metrics: '{}' is neither a column of data/counters.json nor the name of a "
          "CUPTI metric, such as smsp__inst_executed.sum; `ncu --query-metrics` lists those",
          id));
    }
    if (id.starts_with("gpu__time_")) {
      throw std::invalid_argument(
          fmt::format("--metrics: {} is a time, and a kernel that is replayed for its counters is "
                      "not timed; --instrument events and activity measure times",
                      id));
    }
    table.push_back({.id = id, .unit = "", .names = {id}});
  }
  return ids;
}

}  // namespace reprolab::profiling
