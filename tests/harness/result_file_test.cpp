#include "harness/result_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>

#include "kernels/contract.hpp"
#include "tests/refusal.hpp"
#include "tests/temporary_folder.hpp"

namespace reprolab {
namespace {

using nlohmann::json;

/// The description of a machine without NVML by profiling/.
json provenance() {
  return json::parse(R"({
    "started": "2026-11-20T08:00:00Z", "runtime_s": 1.5, "argv": ["replay", "--passes", "2"],
    "commit": "unknown", "dirty": true, "instrument": "activity", "seed": 1,
    "build": {"compiler": "GNU 12.2.0", "nvcc": "13.0.88", "type": "Release",
              "architectures": "90"},
    "host": {"cpu": "unknown", "cores": 2, "memory_bytes": 1, "os": "unknown"},
    "gpu": {"name": "a GPU", "compute_capability": "9.0", "multiprocessors": 132,
            "memory_bytes": 1, "l2_bytes": 1, "theoretical_bandwidth_gb_s": null, "driver": null,
            "cuda_driver": "13.0", "cuda_runtime": "13.0", "ecc": true, "power_limit_w": null},
    "clocks": {"policy": "observed", "locked_mhz": null, "sm_mhz": null, "memory_mhz": null,
               "power_w": null, "temperature_c": null, "throttle_reasons": null}})");
}

/// Every member is set to a unique value.
constexpr const char* full_record_as_json = R"({
    "key": "qwen3-32b/batch2/fp16/b64/a_peer",
    "kernel": "a_peer",
    "origin": {"kind": "peer", "maker": "bitsandbytes 0.47.0"},
    "lineage": "paper, section V-A",
    "source_file": "kernels/nf4/bitsandbytes_peer.cu",
    "deviation": "one scale per tile",
    "bound": null,
    "code": {"target": "sm_90", "sha256": {"libbitsandbytes.so":
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}},
    "problem": {"name": "qwen3-32b/batch2/fp16/b64", "family": "nf4", "model": "qwen3-32b",
                "batch": 2, "layers": 64, "launches": 448, "weights": 31205621760,
                "block_size": 64, "nested": false, "output": "fp16"},
    "outcome": "deviation_as_declared",
    "reason": "3 of 4 weights differ",
    "mismatches": 3,
    "metrics": [
      {"name": "kernel_time", "unit": "us", "samples": [138.5, 139.25]},
      {"name": "product_time", "unit": "us", "missing": "cuBLAS cannot be loaded"},
      {"name": "warp_instructions", "unit": "instructions", "samples": [7e8, 7e8]},
      {"name": "lrc__a.sum", "unit": "", "missing": "GA100 has no metric lrc__a.sum"}],
    "launch": {"kernels_per_call": 2, "kernels": [
      {"name": "dequantize<float>", "grid": [7, 1, 2], "block": [64, 3, 1], "registers": 48,
       "static_shared_bytes": 1088, "dynamic_shared_bytes": 16,
       "blocks_per_multiprocessor": 5}]},
    "bytes": {"read": 9, "written": 32},
    "clocks": {"sm_mhz_before": 1980.0, "sm_mhz_during": 1975.5, "sm_mhz_after": null},
    "findings": {"rows_different_alone": 4}
  })";

Record full_record() { return nlohmann::ordered_json::parse(full_record_as_json).get<Record>(); }

/// A result file with one row of each kind.
ResultFile full_file() {
  ResultFile file{.experiment = "table2", .pass = "replay", .provenance = provenance()};
  file.records.push_back(full_record());
  Record failed;
  failed.key = "64x64/fails";
  failed.variant.name = "fails";
  failed.problem = {{"name", "64x64"}, {"family", "toys"}};
  failed.outcome = Outcome::launch_failed;
  failed.reason = "ended the process: exit status 3";
  file.records.push_back(failed);
  Record ceiling;
  ceiling.key = "64x64/copy";
  ceiling.variant.name = "copy";
  ceiling.variant.origin.kind = Origin::Kind::ceiling;
  ceiling.problem = failed.problem;
  ceiling.metrics = {{.name = kernel_time, .unit = "us", .samples = {1.25}}};
  file.records.push_back(ceiling);
  file.checks.push_back({{"name", "events against activity"},
                         {"keys", json::array({full_record().key})},
                         {"first", 101.0},
                         {"second", 100.0},
                         {"unit", "us"},
                         {"allowed_percent", 2.0}});
  return file;
}

/// As a worker's records are sent to the process that writes the file.
TEST(Record, SurvivesTheWayThroughJsonWhichHasNullWhereAMemberIsUnknown) {
  EXPECT_EQ(json(nlohmann::ordered_json(full_record())).dump(1),
            json::parse(full_record_as_json).dump(1));
  const json empty = nlohmann::ordered_json(Record{});
  for (const char* key : {"deviation", "bound", "code", "mismatches", "launch"}) {
    EXPECT_TRUE(empty.at(key).is_null()) << key;
  }
  EXPECT_EQ(empty["metrics"], json::array());
}

/// The Python tests check this file against data/results.schema.json.
TEST(ResultFile, IsWrittenForThePythonTests) {
  // In the folder of this build, whose name is in no definition: presets share the object.
  const auto bin = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const auto path = bin.parent_path() / "result_file_from_cpp.json";
  write_whole(path, full_file().text());
  const json written = read_json(path);
  EXPECT_EQ(written["records"].size(), 3u);
  EXPECT_EQ(written["records"][0].dump(), json(nlohmann::ordered_json(full_record())).dump());
}

/// 1 if an output was wrong, 3 if the harness failed and no kernel did, 2 if nothing ran.
TEST(ResultFile, ExitStatusIsThatOfTheWorstRow) {
  using enum Outcome;
  for (const auto& [outcomes, status] : std::vector<std::pair<std::vector<Outcome>, int>>{
           {{bit_exact}, 0},
           {{unsupported, deviation_as_declared}, 0},
           {{bit_exact, deviation_as_declared, unsupported, not_verified}, 0},
           {{bit_exact, mismatch}, 1},
           {{launch_failed, bit_exact}, 1},
           {{unsupported, mismatch}, 1},
           {{bit_exact, not_measured}, 3},
           {{not_measured, unsupported}, 3},
           {{not_measured, mismatch}, 1},
           {{}, 2},
           {{unsupported, unsupported}, 2},
           {{not_verified}, 2},  // ceilings alone
           {{unsupported, not_verified}, 2}}) {
    ResultFile file;
    for (const Outcome outcome : outcomes) file.records.emplace_back().outcome = outcome;
    EXPECT_EQ(file.exit_status(), status) << testing::PrintToString(outcomes);
  }
}

TEST(FindSources, ACommitThatIsGivenIsReportedAndAWrongOneRefused) {
  setenv("REPROLAB_COMMIT", std::string(40, 'a').c_str(), 1);
  setenv("REPROLAB_DIRTY", "0", 1);
  const auto sources = find_sources(project_root());
  EXPECT_EQ(sources.at("commit"), std::string(40, 'a'));
  EXPECT_EQ(sources.at("dirty"), false);
  setenv("REPROLAB_COMMIT", "0123abc", 1);
  expect_refused<UsageError>([&] { find_sources(project_root()); }, "REPROLAB_COMMIT");
  unsetenv("REPROLAB_COMMIT");
  unsetenv("REPROLAB_DIRTY");
}

TEST(FindSources, WithoutTheScriptTheCommitIsUnknown) {
  const OwnFolder folder;
  EXPECT_EQ(find_sources(folder.path()).at("commit"), "unknown");
}

using Names = std::vector<std::string>;

TEST(WriteWhole, WritesEveryByteInPlaceOfWhatWasThereAndNothingElse) {
  const OwnFolder folder;
  std::string text(300000, 'x');
  text[5] = '\0';
  for (const std::string& content : {text, std::string("new")}) {
    for (const std::string name : {"a.json", "b/c/a.json"}) {
      write_whole(folder.path() / name, content);
      EXPECT_EQ(content_of(folder.path() / name), content);
    }
  }
  EXPECT_EQ(folder.names(), (Names{"a.json", "b"}));
}

TEST(WriteWhole, FollowsLinks) {
  const OwnFolder folder;
  folder.write("far/a.json", "old");
  std::filesystem::create_symlink("far/a.json", folder.path() / "link");
  write_whole(folder.path() / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path() / "link"));
  EXPECT_EQ(content_of(folder.path() / "far/a.json"), "new");
}

/// As on a full disk: an older file stays, and nothing else does.
TEST(WriteWhole, KeepsTheOlderFileWhereTheNewOneDoesNotFit) {
  const OwnFolder folder;
  const auto file = folder.write("a.json", "old");
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);  // otherwise the write ends the process
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limit{1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  EXPECT_THROW(write_whole(file, std::string(100000, 'x')), UsageError);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(content_of(file), "old");
  EXPECT_EQ(folder.names(), Names{"a.json"});
}

TEST(WriteWhole, RefusesWhatIsNoRegularFileAndNamesIt) {
  const OwnFolder folder;
  folder.write("file", "");
  mkfifo((folder.path() / "fifo").c_str(), 0600);
  std::filesystem::create_symlink("loop", folder.path() / "loop");
  const std::string own = folder.path().string() + "/";
  for (const std::string& path :
       {own, own + "fifo", own + "loop", own + "file/a", own + std::string(300, 'x'), own + "a/",
        std::string("/dev/null"), std::string("/proc/none/a.json")}) {
    for (const bool early : {true, false}) {
      try {
        early ? require_writable(path) : write_whole(path, "text");
        ADD_FAILURE() << path;
      } catch (const UsageError& error) {
        EXPECT_TRUE(std::string(error.what()).starts_with(path)) << error.what();
      }
    }
  }
  EXPECT_EQ(folder.names(), (Names{"fifo", "file", "loop"}));
}

}  // namespace
}  // namespace reprolab
