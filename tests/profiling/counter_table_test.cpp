// Tables of counters, and data/counters.json compared with CUPTI's metrics of five chips. Needs no
// GPU.
#include "profiling/counter_table.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "profiling/counter_host.hpp"
#include "tests/refusal.hpp"

namespace reprolab::profiling {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;

const json two = json::parse(R"({"counters": [
  {"id": "first", "unit": "bytes", "meaning": "One.", "metrics": ["a__b.sum", "a__c.sum"]},
  {"id": "second", "unit": "%", "meaning": "Two.", "metrics": ["a__d.pct"]}]})");

TEST(CounterTable, RefusesWhatIsNoMetric) {
  auto counters = parse_counters(two);
  for (const char* wrong :
       {"third", "Sm__a.sum", "sm__a-b", "__a", "sm__\n", " ,", "gpu__time_duration.sum"}) {
    expect_refused<std::invalid_argument>([&] { add_chosen(counters, wrong); }, "metrics");
  }
}

struct Chip {
  std::string name;
  Names lacks;
};

const Chip chips[] = {
    {"TU104",
     {"pipe_fmaheavy", "pipe_fmalite", "pipe_tma", "async_copies", "tma_loads", "tma_stores",
      "l2_fabric_hits", "l2_fabric_misses", "l2_evict_first_hits", "l2_evict_first_misses",
      "l2_evict_normal_hits", "l2_evict_normal_misses", "l2_evict_last_hits",
      "l2_evict_last_misses"}},
    {"GA100", {"pipe_fmaheavy", "pipe_fmalite", "pipe_tma", "tma_loads", "tma_stores"}},
    {"AD104",
     {"pipe_fp16", "pipe_tma", "tma_loads", "tma_stores", "l2_fabric_hits", "l2_fabric_misses"}},
    {"GH100", {"pipe_fp16"}},
    {"GB100", {"pipe_fp16", "stall_imc_miss", "imc_requests", "imc_misses"}}};

TEST(CounterTable, OfTheProjectLacksTheseColumnsOnEachChip) {
  std::optional<CuptiProfiling> cupti;
  try {
    cupti.emplace(CuptiCalls{.what = "counters"}.open());
  } catch (const std::runtime_error& why_not) {
    GTEST_SKIP() << "NOT TESTED, " << why_not.what();
  }
  std::ifstream file(PROJECT_ROOT "/data/counters.json");
  const json read = json::parse(file);
  for (const auto& [name, lacks] : chips) {
    const ChipCounters chip(*cupti, name);
    Names missing;
    for (const auto& entry : chip.plan(parse_counters(read)).entries) {
      if (entry.missing.empty()) continue;
      missing.push_back(entry.counter.id);
      EXPECT_EQ(entry.missing, name + " has no metric " + entry.counter.names.front());
    }
    EXPECT_EQ(missing, lacks) << name;
  }
}

}  // namespace
}  // namespace reprolab::profiling
