#include "experiments/harness/result_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "experiments/harness/errors.hpp"
#include "tests/message_of.hpp"
#include "tests/temporary_folder.hpp"

namespace reprolab {
namespace {

using nlohmann::json;

/// Every member of every struct set, to a value that no other has.
ResultFile full_file() {
  ResultFile file{.experiment = "table2", .pass = "replay", .provenance = {{"seed", 1}}};
  Record record;
  record.key = "qwen3-32b/batch2/shared_lut";
  record.variant = {"shared_lut", Role::peer, "paper, section V-A", "kernels/nf4/shared_lut.cu",
                    "one scale a tile"};
  record.problem = {{"name", "qwen3-32b/batch2"}, {"family", "nf4"}};
  record.outcome = Outcome::deviation_as_declared;
  record.reason = "3 of 4 weights differ";
  record.mismatches = 3;
  record.samples_us = {138.5, 139.25};
  record.product_samples_us = {7.5, 8.5};
  record.bytes_read = 9;
  record.bytes_written = 32;
  record.clocks = {1980, 1975.5, std::nullopt};
  file.records = {record};
  VerdictRecord verdict;
  verdict.claim = "kernel-speedup";
  verdict.source = "paper";
  verdict.cell = {{"model", "qwen3-32b"}, {"batch", 2}};
  verdict.text = "2.0-2.2x";
  verdict.unit = "x";
  verdict.source_value = 2.0;
  verdict.our_value = 2.5;
  verdict.our_interval = {2.25, 2.75};
  verdict.tolerance = "within 10 %";
  verdict.verdict = Verdict::not_reproduced;
  verdict.reason = "+25.0 %";
  verdict.decided_by = {"a", "b"};
  file.verdicts = {verdict};
  file.checks = {{"events against activity", 101, 100, "us", 2}};
  return file;
}

constexpr const char* golden = R"({
  "schema": "reprolab-results/1",
  "experiment": "table2",
  "pass": "replay",
  "provenance": {"seed": 1},
  "records": [{
    "key": "qwen3-32b/batch2/shared_lut",
    "kernel": "shared_lut",
    "role": "peer",
    "lineage": "paper, section V-A",
    "source_file": "kernels/nf4/shared_lut.cu",
    "contract": {"kind": "declared_deviation", "deviation": "one scale a tile"},
    "problem": {"name": "qwen3-32b/batch2", "family": "nf4"},
    "outcome": "deviation_as_declared",
    "reason": "3 of 4 weights differ",
    "mismatches": 3,
    "samples_us": [138.5, 139.25],
    "bytes": {"read": 9, "written": 32},
    "clocks": {"sm_mhz_before": 1980.0, "sm_mhz_during": 1975.5, "sm_mhz_after": null},
    "counters": {},
    "product_samples_us": [7.5, 8.5]
  }],
  "verdicts": [{
    "claim": "kernel-speedup",
    "source": "paper",
    "cell": {"model": "qwen3-32b", "batch": 2},
    "text": "2.0-2.2x",
    "unit": "x",
    "source_value": 2.0,
    "our_value": 2.5,
    "our_interval": [2.25, 2.75],
    "difference_percent": 25.0,
    "tolerance": "within 10 %",
    "verdict": "not_reproduced",
    "reason": "+25.0 %",
    "decided_by": ["a", "b"]
  }],
  "checks": [{
    "name": "events against activity",
    "first": 101.0,
    "second": 100.0,
    "unit": "us",
    "difference_percent": 1.0,
    "allowed_percent": 2.0,
    "passed": true
  }]
})";

TEST(ResultFile, JsonHoldsEveryMember) {
  EXPECT_EQ(json(full_file().to_json()).dump(1), json::parse(golden).dump(1));
}

TEST(ResultFile, MembersComeInTheOrderOfTheSchema) {
  std::vector<std::string> keys;
  const auto file = full_file().to_json();
  for (const auto& [key, value] : file.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"schema", "experiment", "pass", "provenance", "records",
                                            "verdicts", "checks"}));
}

TEST(ResultFile, WhatIsUnknownIsNullAndListsAreNeverMissing) {
  ResultFile file{.experiment = "bench", .pass = "alone"};
  file.records.emplace_back();
  file.verdicts.emplace_back();
  const json written = file.to_json();
  const json& record = written["records"][0];
  EXPECT_EQ(record["samples_us"], json::array());
  EXPECT_FALSE(record.contains("product_samples_us"));
  EXPECT_TRUE(record.at("mismatches").is_null());
  EXPECT_EQ(record["clocks"],
            json::parse(R"({"sm_mhz_before": null, "sm_mhz_during": null, "sm_mhz_after": null})"));
  EXPECT_EQ(record["contract"], json::parse(R"({"kind": "bit_exact", "deviation": ""})"));
  const json& verdict = written["verdicts"][0];
  for (const char* key :
       {"cell", "source_value", "our_value", "our_interval", "difference_percent"}) {
    EXPECT_TRUE(verdict.at(key).is_null()) << key;
  }
  EXPECT_EQ(verdict["verdict"], "not_testable");
  EXPECT_EQ(written["checks"], json::array());
}

/// The keys of an object, sorted.
std::vector<std::string> keys_of(const json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

TEST(ResultFile, TheSchemasDocumentHasTheSameKeys) {
  const std::string text = content_of(project_root() / "experiments/harness/RESULTS.md");
  const auto begin = text.find("```jsonc\n");
  ASSERT_NE(begin, std::string::npos);
  const auto end = text.find("```", begin + 9);
  const json document = json::parse(text.substr(begin + 9, end - begin - 9), nullptr, true, true);
  const json written = full_file().to_json();
  EXPECT_EQ(document["schema"], results_schema);
  EXPECT_EQ(keys_of(written), keys_of(document));
  const json& record = written["records"][0];  // of a replay: with product_samples_us
  EXPECT_EQ(keys_of(record), keys_of(document["records"][0]));
  for (const char* key : {"contract", "bytes", "clocks"}) {
    EXPECT_EQ(keys_of(record[key]), keys_of(document["records"][0][key])) << key;
  }
  EXPECT_EQ(keys_of(written["verdicts"][0]), keys_of(document["verdicts"][0]));
  EXPECT_EQ(keys_of(written["checks"][0]), keys_of(document["checks"][0]));
}

TEST(ResultFile, NamesOfRolesAndVerdictsAreTheSchemas) {
  EXPECT_EQ(name(Role::kernel), "kernel");
  EXPECT_EQ(name(Role::peer), "peer");
  EXPECT_EQ(name(Role::ceiling), "ceiling");
  EXPECT_EQ(name(Verdict::reproduced), "reproduced");
  EXPECT_EQ(name(Verdict::not_reproduced), "not_reproduced");
  EXPECT_EQ(name(Verdict::premise_false), "premise_false");
  EXPECT_EQ(name(Verdict::not_testable), "not_testable");
}

int status_of(std::initializer_list<Outcome> outcomes) {
  ResultFile file;
  for (const Outcome outcome : outcomes) file.records.emplace_back().outcome = outcome;
  return file.exit_status();
}

TEST(ResultFile, ExitStatusIs0OnlyWhenNoOutputWasWrong) {
  EXPECT_EQ(status_of({Outcome::bit_exact}), 0);
  EXPECT_EQ(status_of({Outcome::unsupported, Outcome::deviation_as_declared}), 0);
  EXPECT_EQ(status_of({Outcome::bit_exact, Outcome::deviation_as_declared, Outcome::unsupported,
                       Outcome::not_verified}),
            0);
}

TEST(ResultFile, ExitStatusIs1WhenAnyRowFailed) {
  EXPECT_EQ(status_of({Outcome::bit_exact, Outcome::mismatch}), 1);
  EXPECT_EQ(status_of({Outcome::launch_failed, Outcome::bit_exact}), 1);
  EXPECT_EQ(status_of({Outcome::unsupported, Outcome::mismatch}), 1);
}

TEST(ResultFile, ExitStatusIs2WhenNothingRan) {
  EXPECT_EQ(status_of({}), 2);
  EXPECT_EQ(status_of({Outcome::unsupported, Outcome::unsupported}), 2);
  EXPECT_EQ(status_of({Outcome::not_verified}), 2) << "ceilings alone";
  EXPECT_EQ(status_of({Outcome::unsupported, Outcome::not_verified}), 2);
}

TEST(ResultFile, DifferenceNeedsBothValuesAndASourceOtherThanZero) {
  VerdictRecord verdict;
  EXPECT_FALSE(verdict.difference_percent());
  verdict.our_value = 2.2;
  EXPECT_FALSE(verdict.difference_percent());
  verdict.source_value = 0;
  EXPECT_FALSE(verdict.difference_percent());
  verdict.source_value = 2.0;
  EXPECT_NEAR(verdict.difference_percent().value(), 10, 1e-9);
  verdict.our_value = 1.5;
  EXPECT_NEAR(verdict.difference_percent().value(), -25, 1e-9);
}

TEST(InstrumentCheck, PassesUpToTheAllowedDifferenceEitherWay) {
  const auto passes = [](double first, double second) {
    return InstrumentCheck{"", first, second, "us", 1}.passed();
  };
  EXPECT_TRUE(passes(100, 100));
  EXPECT_TRUE(passes(101, 100));
  EXPECT_TRUE(passes(99, 100));
  EXPECT_FALSE(passes(101.5, 100));
  EXPECT_FALSE(passes(98.5, 100));
}

TEST(InstrumentCheck, AReadingOfNothingNeverPasses) {
  EXPECT_FALSE((InstrumentCheck{"", 0, 0, "us", 1}.passed()));
  EXPECT_FALSE((InstrumentCheck{"", 5, 0, "us", 1}.passed()));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE((InstrumentCheck{"", nan, 5, "us", 1}.passed()));
}

TEST(ReadJson, FaultsNameTheFile) {
  const OwnFolder folder;
  const std::string absent = (folder.path() / "absent.json").string();
  EXPECT_EQ(message_of<UsageError>([&] { read_json(absent); }), absent + ": cannot be read");
  const std::string broken = folder.write("broken.json", "{\"a\": }").string();
  EXPECT_EQ(message_of<UsageError>([&] { read_json(broken); }),
            broken + ": not valid JSON at byte 7");
  EXPECT_EQ(read_json(folder.write("fine.json", "{\"a\": 1}")), json({{"a", 1}}));
}

}  // namespace
}  // namespace reprolab
