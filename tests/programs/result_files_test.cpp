// The result files that programs write on a GPU, and their output.
#include <cmath>

#include "tests/on_gpu.hpp"
#include "tests/profiling/testing.hpp"
#include "tests/programs/program.hpp"

namespace reprolab {
namespace {

using nlohmann::json;
using profiling::ScopedVariable;

class OnGpuResultFile : public NeedsGpu<Programs> {
 protected:
  json result() const { return read_json(folder_.path() / "results.json"); }

  /// The result file of a run without an error; its output is in `out_`.
  json written_by(const std::string& program, const std::string& arguments) {
    const Finished finished = run(program, arguments + " --output results.json");
    EXPECT_EQ(finished.status, 0) << finished.out << finished.err;
    out_ = finished.out, err_ = finished.err;
    return finished.status == 0 ? result() : json{{"records", json::array()}};
  }

  std::string out_, err_;
};

/// The number of time samples of a row.
std::size_t times_of(const json& record) {
  for (const json& metric : record["metrics"]) {
    if (metric["name"] == "kernel_time") return metric["samples"].size();
  }
  return 0;
}

/// Kernels of other languages may be compiled for another GPU, or for other lengths.
bool is_left_out(const json& record) {
  return record["origin"]["kind"] == "compiler" && record["outcome"] == "unsupported";
}

const std::string briefly = " --samples 2 --batch-us 20";

TEST_F(OnGpuResultFile, OfBenchHasEveryRow) {
  const json file = written_by(BENCH, "--family nf4 --shape 64x1003" + briefly);
  EXPECT_EQ(file["schema"], results_schema);
  EXPECT_EQ(file["experiment"], "bench");
  EXPECT_EQ(file["pass"], "alone");
  EXPECT_EQ(file["provenance"]["instrument"], "events");
  EXPECT_EQ(file["records"].size(), kernel_names("nf4").size() + 5) << "and the ceilings";
  for (const json& record : file["records"]) {
    EXPECT_EQ(times_of(record), is_left_out(record) ? 0u : 2u) << record["key"];
    EXPECT_EQ(record["problem"]["n"], 64192) << record["key"];
    EXPECT_TRUE(is_left_out(record) || record["code"].is_object()) << record["key"];
    EXPECT_EQ(record["problem"]["models"], json::array({"asked for"})) << record["key"];
  }
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"results.json"});
}

/// Counters of this machine's GPU, or the reason why this user has none.
TEST_F(OnGpuResultFile, OfCountersHasEachCounterOfEachRowAndNoTimes) {
  const json file = written_by(BENCH,
                               "--shape 64x1003 --kernel 'branch_tree|shared_lut|streaming' "
                               "--instrument counters --samples 2 "
                               "--metrics sm__warps_launched.sum,sm__none.sum");
  EXPECT_EQ(file["provenance"]["instrument"], "counters");
  EXPECT_EQ(file["records"].size(), 3u) << "no ceilings";
  const bool counted = err_.empty();
  for (const json& record : file["records"]) {
    const Record row = nlohmann::ordered_json(record).get<Record>();
    EXPECT_TRUE(may_be_timed(row.outcome)) << record["key"];
    EXPECT_EQ(row.metric(kernel_time), nullptr) << record["key"];
    ASSERT_NE(row.metric("warp_instructions"), nullptr) << record["key"];
    ASSERT_NE(row.metric("sm__warps_launched.sum"), nullptr) << record["key"];
    EXPECT_NE(row.metric("sm__none.sum")->missing, "") << record["key"];
    if (!counted) {
      EXPECT_NE(row.metric("warp_instructions")->missing, "") << record["key"];
      continue;
    }
    for (const char* name : {"warp_instructions", "sm__warps_launched.sum", "global_loads"}) {
      ASSERT_EQ(row.metric(name)->samples.size(), 2u) << record["key"] << " " << name;
      EXPECT_GT(row.metric(name)->samples[0], 0) << record["key"] << " " << name;
    }
  }
  EXPECT_TRUE(has_match(out_, "nf4/64x1003/fp16/b64/shared_lut: bit_exact; [0-9]+ metrics"));
  if (!counted) {
    EXPECT_EQ(lines_of(err_), 1);
    EXPECT_TRUE(begins(err_, "bench: counters: "));
    GTEST_SKIP() << "NOT TESTED, " << err_;
  }
  EXPECT_TRUE(
      has_match(out_, "; sm__warps_launched\\.sum [0-9]+ warp; sm__none\\.sum is missing: "));
}

/// Without permission to count, outputs are still verified, with one line about it and the same
/// status.
TEST_F(OnGpuResultFile, WithoutCuptiCountersAreMissingAndTheRunContinues) {
  const ScopedVariable nowhere("REPROLAB_CUPTI", "/nonexistent/libcupti.so");
  const json file = written_by(BENCH, "--shape 64x1003 --kernel shared_lut --instrument counters");
  EXPECT_TRUE(begins(out_, "nf4/64x1003/fp16/b64/shared_lut: bit_exact; 0 metrics, "));
  EXPECT_TRUE(begins(err_, "bench: counters: CUPTI cannot be loaded (/nonexistent/"));
  EXPECT_EQ(lines_of(err_), 1);
  for (const json& metric : file["records"][0]["metrics"]) {
    EXPECT_TRUE(begins(metric["missing"].get<std::string>(), "counters: CUPTI cannot be loaded"));
  }
}

TEST_F(OnGpuResultFile, OfAnActivityPassHasLaunchesAndNoCeilings) {
  const json file =
      written_by(BENCH, "--shape 64x64 --kernel shared_lut --instrument activity" + briefly);
  ASSERT_EQ(file["records"].size(), 1u);
  EXPECT_EQ(times_of(file["records"][0]), 2u);
  EXPECT_EQ(file["records"][0]["launch"]["kernels"][0]["block"], json::array({64, 1, 1}));
}

/// A matrix of 4 TiB and its transpose; a block that a kernel refuses.
TEST_F(OnGpuResultFile, OfUnsupportedProblemsHasReasonsAndStatus2) {
  for (const bool timed : {true, false}) {
    const std::string instrument = timed ? "events" : "none";
    for (const std::string arguments :
         {"--shape 64x1024 --block-size 1024 --kernel shared_lut_algorithm1",
          "--family transpose --matrix 1048576x1048576"}) {
      const Finished finished = run(
          BENCH, arguments + briefly + " --instrument " + instrument + " --output results.json");
      EXPECT_EQ(finished.status, 2);
      EXPECT_TRUE(has_match(finished.err, "bench: no selected kernel"));
    }
    const json file = result();
    EXPECT_EQ(file["records"].size(), kernel_names("transpose").size() + (timed ? 5 : 0));
    for (const json& record : file["records"]) {
      EXPECT_EQ(record["outcome"], "unsupported") << record["key"];
      const std::string size = timed ? "32768.0" : "12288.0";
      EXPECT_TRUE(begins(record["reason"].get<std::string>(), "needs " + size + " GiB of device"));
    }
  }
}

/// A path that cannot be written is reported before anything is measured.
TEST_F(OnGpuResultFile, IsNotWrittenIfNothingIsMeasured) {
  const std::string small = "--shape 64x64 --kernel 'shared_lut*' ";
  const Finished nothing = run(BENCH, small + "--benchmark_filter=nothing --output results.json");
  EXPECT_EQ(nothing.status, 2);
  EXPECT_TRUE(contains(nothing.err, "bench: --benchmark_filter"));
  const Finished one = run(BENCH, small + "--samples 2 --benchmark_filter=/shared_lut$");
  EXPECT_TRUE(contains(one.out, "/shared_lut ") && !contains(one.out, "/shared_lut_")) << one.out;
  const Finished nowhere = run(BENCH, small + "--instrument none --output /proc/results.json");
  EXPECT_EQ(nowhere.status, 2);
  EXPECT_EQ(nowhere.out, "");
  EXPECT_TRUE(begins(nowhere.err, "bench: /proc/results.json: cannot be written"));
  expect_no_files();
}

/// Both halves of a pass, with the events of a pass of dequantizations compared with CUPTI.
TEST_F(OnGpuResultFile, OfAReplayHasTimesLaunchesAndAgreeingInstruments) {
  const json file = written_by(REPLAY,
                               "--models llama-3.1-8b --batches 2,8 --passes 2 --kernel "
                               "'branch_tree|shared_lut'");
  EXPECT_EQ(file["records"].size(), 4u);
  for (const json& record : file["records"]) {
    EXPECT_EQ(record["outcome"], "bit_exact") << record["reason"];
    for (const json& metric : record["metrics"]) {
      EXPECT_EQ(metric["samples"].size(), 2u) << metric["name"];
    }
    EXPECT_EQ(record["metrics"][0]["name"], "kernel_time");
    EXPECT_EQ(record["metrics"][1]["name"], "product_time");
    EXPECT_EQ(record["launch"]["kernels_per_call"], 1);
  }
  EXPECT_EQ(file["checks"].size(), 2u);
  for (const json& check : file["checks"]) {
    const double first = check["first"], second = check["second"];
    EXPECT_LE(std::abs(100 * (first - second) / second), check["allowed_percent"].get<double>());
    EXPECT_EQ(check["keys"].size(), 2u);
  }
}

TEST_F(OnGpuResultFile, WithoutAnInstrumentHasOnlyVerdicts) {
  for (const auto& [program, kernels, count] : {std::tuple{LATENCY, "'shared_*'", 3u},
                                                {PUZZLE, "packed_store", 1u},
                                                {BENCH, "packed_store --shape 64x1003", 1u}}) {
    const json file = written_by(program, fmt::format("--kernel {} --instrument none", kernels));
    EXPECT_EQ(file["records"].size(), count);
    for (const json& record : file["records"]) {
      EXPECT_EQ(record["outcome"], "bit_exact");
      EXPECT_TRUE(record["metrics"].empty());
    }
  }
}

}  // namespace
}  // namespace reprolab
