#include "profiling/counter_table.hpp"

#include <fstream>

#include <gtest/gtest.h>
#include "tests/message_of.hpp"

namespace reprolab::profiling {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;

const json two = json::parse(R"({"counters": [
  {"id": "first", "unit": "bytes", "meaning": "One.", "metrics": ["a__b.sum", "a__c.sum"]},
  {"id": "second", "unit": "%", "meaning": "Two.", "metrics": ["a__d.pct"]}]})");

TEST(CounterTable, HasEachCounterInOrder) {
  const auto counters = parse_counters(two);
  ASSERT_EQ(counters.size(), 2u);
  EXPECT_EQ(counters[0].id, "first");
  EXPECT_EQ(counters[0].unit, "bytes");
  EXPECT_EQ(counters[0].meaning, "One.");
  EXPECT_EQ(counters[0].names, (Names{"a__b.sum", "a__c.sum"}));
  EXPECT_EQ(counters[1].id, "second");
}

TEST(CounterTable, RefusesWhatIsNotAsItsSchemaSays) {
  for (const char* text :
       {"{}", "[]", R"({"counters": 1})", R"({"counters": [{"id": "a"}]})",
        R"({"counters": [{"id": 1, "unit": "", "meaning": "", "metrics": []}]})"}) {
    EXPECT_EQ(message_of<std::invalid_argument>([&] { parse_counters(json::parse(text)); }),
              "data/counters.json: not as data/counters.schema.json says")
        << text;
  }
  json twice = two;
  twice["counters"][1]["id"] = "first";
  EXPECT_EQ(message_of<std::invalid_argument>([&] { parse_counters(twice); }),
            "data/counters.json: the id 'first' comes twice");
}

TEST(CounterTable, ChosenMetricsAreAddedOnceAndColumnsAreThereAlready) {
  auto counters = parse_counters(two);
  EXPECT_EQ(add_chosen(counters, "dram__x.sum, second,,dram__x.sum"),
            (Names{"dram__x.sum", "second", "dram__x.sum"}));
  ASSERT_EQ(counters.size(), 3u);
  EXPECT_EQ(counters[2].id, "dram__x.sum");
  EXPECT_EQ(counters[2].names, Names{"dram__x.sum"});
  EXPECT_EQ(counters[2].unit, "");
}

TEST(CounterTable, RefusesWhatIsNoMetric) {
  auto counters = parse_counters(two);
  for (const char* wrong : {"third", "Sm__a.sum", "sm__a-b", "__a", "sm__\n"}) {
    EXPECT_EQ(
        message_of<std::invalid_argument>([&] { add_chosen(counters, wrong); }),
        "--metrics: '" + std::string(wrong) +
            "' is neither a column of data/counters.json nor the name of a CUPTI metric, such "
            "as smsp__inst_executed.sum; `make metrics` lists both");
  }
  EXPECT_EQ(message_of<std::invalid_argument>([&] { add_chosen(counters, " ,"); }),
            "--metrics: name at least one metric");
  EXPECT_EQ(
      message_of<std::invalid_argument>([&] { add_chosen(counters, "gpu__time_duration.sum"); }),
      "--metrics: gpu__time_duration.sum is a time, and a kernel that is replayed for its counters "
      "is not timed; --instrument events and activity measure times");
}

TEST(CounterTable, TheProjectsOwnIsValid) {
  std::ifstream file(PROJECT_ROOT "/data/counters.json");
  const auto counters = parse_counters(json::parse(file));
  EXPECT_EQ(counters.at(0).id, "warp_instructions");
}

}  // namespace
}  // namespace reprolab::profiling
