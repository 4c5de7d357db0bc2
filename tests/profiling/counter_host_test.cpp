// data/counters.json against what CUPTI knows of five chips. Needs no GPU.
#include "profiling/counter_host.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <optional>

namespace reprolab::profiling {
namespace {

using Names = std::vector<std::string>;

/// CUPTI of CUDA 13.0, whose schedules the numbers of passes below are.
constexpr std::uint32_t scheduled_by = 1300;

struct Known {
  std::size_t passes;  ///< Of the whole table.
  Names missing;
  Names of_two_passes;  ///< Columns that need more than one pass when they are read alone.
};

const Names ratios = {"sectors_per_load_request", "sectors_per_store_request", "l2_hit_rate",
                      "l2_read_hit_rate", "l2_write_hit_rate"};

Names with(Names names, const std::string& last) {
  names.push_back(last);
  return names;
}

const std::map<std::string, Known> chips = {
    {"TU104",
     {14,
      {"pipe_fmaheavy", "pipe_fmalite", "pipe_tma", "async_copies", "tma_loads", "tma_stores",
       "l2_fabric_hits", "l2_fabric_misses", "l2_evict_first_hits", "l2_evict_first_misses",
       "l2_evict_normal_hits", "l2_evict_normal_misses", "l2_evict_last_hits",
       "l2_evict_last_misses"},
      with(ratios, "dram_utilisation")}},
    {"GA100",
     {15, {"pipe_fmaheavy", "pipe_fmalite", "pipe_tma", "tma_loads", "tma_stores"}, ratios}},
    {"AD104",
     {14,
      {"pipe_fp16", "pipe_tma", "tma_loads", "tma_stores", "l2_fabric_hits", "l2_fabric_misses"},
      ratios}},
    {"GH100", {16, {"pipe_fp16"}, ratios}},
    {"GB100", {15, {"pipe_fp16", "stall_imc_miss", "imc_requests", "imc_misses"}, ratios}}};

class CounterHost : public testing::Test {
 protected:
  void SetUp() override {
    std::string why_not;
    cupti_ = open_cupti(&why_not);
    if (!cupti_) GTEST_SKIP() << "NOT TESTED, " << why_not;
    host_.emplace(*cupti_);
  }

  /// Whether this CUPTI schedules as the one that the numbers of passes are from.
  bool schedules_as_known() const {
    decltype(&cuptiGetVersion) get_version = nullptr;
    std::uint32_t version = 0;
    if (!cupti_->bind({{get_version, "cuptiGetVersion"}}).empty()) return false;
    return get_version(&version) == CUPTI_SUCCESS && version / 100 == scheduled_by;
  }

  static nlohmann::json file() {
    std::ifstream file(PROJECT_ROOT "/data/counters.json");
    return nlohmann::json::parse(file);
  }
  static std::vector<Counter> table() { return parse_counters(file()); }

  std::optional<DynamicLibrary> cupti_;
  std::optional<CuptiProfiling> host_;
};

TEST_F(CounterHost, EachChipHasExactlyTheseColumns) {
  for (const auto& [chip, known] : chips) {
    const CounterPlan plan = ChipCounters(*host_, chip).plan(table());
    Names missing;
    for (const auto& entry : plan.entries) {
      if (entry.missing.empty()) continue;
      missing.push_back(entry.counter.id);
      EXPECT_EQ(entry.missing, chip + " has no metric " + entry.counter.names.front());
    }
    EXPECT_EQ(missing, known.missing) << chip;
    EXPECT_EQ(plan.names().size(), plan.entries.size() - missing.size()) << chip;
  }
}

TEST_F(CounterHost, ThePageOfNsightComputeAsksNoChipForWhatItLacks) {
  const std::map<std::string, int> capabilities = {
      {"TU104", 75}, {"GA100", 80}, {"AD104", 89}, {"GH100", 90}, {"GB100", 100}};
  const nlohmann::json counters = file().at("counters");
  for (const auto& [chip, capability] : capabilities) {
    std::vector<Counter> asked;
    for (const auto& counter : counters) {
      const auto ncu = counter.value("ncu", nlohmann::json());
      if (ncu.is_null() || capability < ncu.value("min_arch", 0)) continue;
      if (capability > ncu.value("max_arch", 1000)) continue;
      const std::string metric = counter.at("metrics").at(0);
      asked.push_back({.id = metric, .unit = "", .meaning = "", .names = {metric}});
    }
    EXPECT_GT(asked.size(), 50u) << chip;
    for (const auto& entry : ChipCounters(*host_, chip).plan(asked).entries) {
      EXPECT_EQ(entry.missing, "") << chip;
    }
  }
}

TEST_F(CounterHost, EachChipNeedsTheseNumbersOfPasses) {
  if (!schedules_as_known()) GTEST_SKIP() << "NOT TESTED, CUPTI is not that of CUDA 13.0";
  for (const auto& [chip, known] : chips) {
    const CounterPlan plan = ChipCounters(*host_, chip).plan(table());
    EXPECT_EQ(plan.passes, known.passes) << chip;
    Names of_two;
    for (const auto& entry : plan.entries) {
      EXPECT_LE(entry.passes, 2u) << chip << " " << entry.counter.id;
      if (entry.passes == 2) of_two.push_back(entry.counter.id);
    }
    EXPECT_EQ(of_two, known.of_two_passes) << chip;
  }
}

/// A metric that a user adds, by CUPTI's name alone.
Counter added(const std::string& name) {
  return {.id = name, .unit = "", .meaning = "", .names = {name}};
}

TEST_F(CounterHost, WhatCannotBeCountedBesideTheTableIsMissing) {
  auto counters = table();
  counters.push_back(added("pcie__read_bytes.sum"));
  counters.push_back(added("sm__warps_launched.sum"));
  const CounterPlan plan = ChipCounters(*host_, "GH100").plan(counters);
  const auto& pcie = plan.entries[counters.size() - 2];
  EXPECT_EQ(pcie.missing,
            "pcie__read_bytes.sum can be collected, but not together with the counters before it");
  EXPECT_EQ(plan.entries.back().missing, "");
  EXPECT_EQ(plan.names().size(), counters.size() - 2) << "GH100 lacks pipe_fp16";
}

TEST_F(CounterHost, KnowsItsChipsAndRefusesOthers) {
  const auto known = known_chips(*host_);
  for (const auto& [chip, what] : chips) {
    EXPECT_NE(std::find(known.begin(), known.end(), chip), known.end()) << chip;
  }
  EXPECT_THROW(ChipCounters(*host_, "XX100"), CuptiError);
}

TEST_F(CounterHost, ListsAllThatCuptiHas) {
  const ChipCounters chip(*host_, "GA100");
  const auto all = chip.base_metrics();
  EXPECT_GT(all.size(), 1000u);
  const auto found = std::ranges::find(all, "smsp__inst_executed", &BaseMetric::name);
  ASSERT_NE(found, all.end());
  EXPECT_EQ(found->type, CUPTI_METRIC_TYPE_COUNTER);
  EXPECT_EQ(found->unit, "instruction");
  EXPECT_EQ(found->description, "# of warp instructions executed");
  EXPECT_EQ(chip.rollups(*found).front(), ".sum");
  const auto rate = std::ranges::find(all, "lts__t_sector_hit_rate", &BaseMetric::name);
  ASSERT_NE(rate, all.end());
  EXPECT_EQ(chip.rollups(*rate), (Names{".max_rate", ".pct", ".ratio"}));
}

}  // namespace
}  // namespace reprolab::profiling
