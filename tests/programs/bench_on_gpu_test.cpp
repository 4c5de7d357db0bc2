// The result files that bench writes, and what it prints with them.
#include <cstdlib>
#include <map>

#include "harness/result_file.hpp"
#include "profiling/machine.hpp"
#include "tests/profiling/testing.hpp"
#include "tests/programs/program.hpp"
#include "tests/text.hpp"

namespace reprolab {
namespace {

using nlohmann::json;

class OnGpuResultFile : public Programs {
 protected:
  void SetUp() override {
    std::string why_not;
    if (!profiling::find_gpu(&why_not)) GTEST_SKIP() << "NOT TESTED, " << why_not;
  }

  json result() const { return read_json(folder_.path() / "results.json"); }
};

/// How many time samples a row holds.
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

TEST_F(OnGpuResultFile, OfBenchHasEveryRow) {
  const Finished found =
      run(BENCH, "--family nf4 --shape 64x1003 --samples 2 --batch-us 20 --output results.json");
  ASSERT_EQ(found.status, 0) << found.err;
  const json file = result();
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

TEST_F(OnGpuResultFile, OfAPassWithoutAnInstrumentHasNoSamples) {
  const Finished found =
      run(BENCH, "--family nf4 --shape 64x1003 --instrument none --output results.json");
  ASSERT_EQ(found.status, 0) << found.err;
  EXPECT_TRUE(contains(found.out, "nf4/64x1003/fp16/b64/shared_lut: bit_exact\n"));
  const json file = result();
  EXPECT_EQ(file["records"].size(), kernel_names("nf4").size());
  for (const json& record : file["records"]) EXPECT_EQ(times_of(record), 0u);
}

/// Counters of this machine's GPU, or the reason why this user has none.
TEST_F(OnGpuResultFile, OfCountersHasEachCounterOfEachRowAndNoTimes) {
  const Finished found = run(BENCH,
                             "--family nf4 --shape 64x1003 --instrument counters --samples 2 "
                             "--metrics sm__warps_launched.sum,sm__none.sum --output results.json");
  ASSERT_EQ(found.status, 0) << found.err;
  const json file = result();
  EXPECT_EQ(file["provenance"]["instrument"], "counters");
  EXPECT_EQ(file["records"].size(), kernel_names("nf4").size()) << "no ceilings";
  const bool counted = found.err.empty();
  for (const json& record : file["records"]) {
    if (is_left_out(record)) continue;
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
  EXPECT_TRUE(has_match(found.out, "nf4/64x1003/fp16/b64/shared_lut: bit_exact; [0-9]+ counters"));
  if (!counted) {
    EXPECT_EQ(lines_of(found.err), 1);
    EXPECT_TRUE(begins(found.err, "bench: counters: "));
    GTEST_SKIP() << "NOT TESTED, " << found.err;
  }
  EXPECT_TRUE(
      has_match(found.out, "; sm__warps_launched\\.sum [0-9]+ warp; sm__none\\.sum is missing: "));
}

/// Whoever may not count still gets verified outputs, one line about it, and the same status.
TEST_F(OnGpuResultFile, WithoutCuptiCountersAreMissingAndTheRunGoesOn) {
  const profiling::ScopedVariable nowhere("REPROLAB_CUPTI", "/nonexistent/libcupti.so");
  const Finished found = run(BENCH,
                             "--shape 64x1003 --kernel shared_lut --instrument counters "
                             "--output results.json");
  EXPECT_EQ(found.status, 0);
  EXPECT_TRUE(begins(found.out, "nf4/64x1003/fp16/b64/shared_lut: bit_exact; 0 counters, "));
  EXPECT_EQ(lines_of(found.err), 1);
  EXPECT_TRUE(begins(found.err, "bench: counters: CUPTI cannot be loaded (/nonexistent/"));
  EXPECT_TRUE(ends(found.err, ". The run goes on without them.\n"));
  const json file = result();
  for (const json& metric : file["records"][0]["metrics"]) {
    EXPECT_TRUE(begins(metric["missing"].get<std::string>(), "counters: CUPTI cannot be loaded"));
  }
}

/// Rows of 1004 elements begin at multiples of 16 bytes, rows of 1003 do not.
TEST_F(OnGpuResultFile, OfATransposeHasEveryRowOfEveryMatrix) {
  const Finished found = run(BENCH,
                             "--family transpose --matrix 64x1003 --matrix 64x1004 --samples 2 "
                             "--batch-us 20 --output results.json");
  ASSERT_EQ(found.status, 0) << found.err;
  const json file = result();
  EXPECT_EQ(file["records"].size(), 2 * (kernel_names("transpose").size() + 5));
  for (const json& record : file["records"]) {
    EXPECT_EQ(record["problem"]["family"], "transpose");
    EXPECT_EQ(record["problem"]["checked_on"], "host");
    const bool timed = record["outcome"] != "unsupported";
    EXPECT_EQ(times_of(record), timed ? 2u : 0u) << record["key"];
    EXPECT_FALSE(!timed && record["reason"] == "") << record["key"];
  }
}

/// A small version of the post's experiment.
TEST_F(OnGpuResultFile, OfAMatrixOnBothKindsOfDataTimesTheRandomOne) {
  const Finished found = run(BENCH,
                             "--matrix 256x256 --data random,constant --halve-to-fit --samples 2 "
                             "--batch-us 20 --output results.json");
  ASSERT_EQ(found.status, 0) << found.err;
  EXPECT_TRUE(contains(found.out, "transpose/256x256/constant/column_walk: bit_exact\n"));
  std::size_t random = 0, constant = 0;
  const json file = result();
  for (const json& record : file.at("records")) {
    const bool is_random = record["problem"]["data"] == "random";
    ++(is_random ? random : constant);
    EXPECT_EQ(times_of(record), is_random && !is_left_out(record) ? 2u : 0u) << record["key"];
  }
  EXPECT_EQ(random, kernel_names("transpose").size() + 5) << "and the ceilings";
  EXPECT_EQ(constant, kernel_names("transpose").size());
}

/// A small version of the pass `divergence`; an odd number of weights.
TEST_F(OnGpuResultFile, OfEveryKindOfCodesVerifiesAndTimesThemAll) {
  const Finished found = run(BENCH,
                             "--shape 63x1003 --data normal,sorted,uniform,equal --samples 2 "
                             "--batch-us 20 --output results.json");
  ASSERT_EQ(found.status, 0) << found.err;
  std::map<std::string, std::size_t> rows;
  const json file = result();
  for (const json& record : file.at("records")) {
    const std::string data = record["problem"].value("data", "normal");
    ++rows[data];
    EXPECT_EQ(times_of(record), is_left_out(record) ? 0u : 2u) << record["key"];
    const std::string suffix = data == "normal" ? "" : fmt::format("/{}", data);
    EXPECT_EQ(record["problem"]["name"], fmt::format("63x1003/fp16/b64{}", suffix));
  }
  EXPECT_EQ(rows.size(), 4u);
  for (const auto& [data, count] : rows) {
    EXPECT_EQ(count, kernel_names("nf4").size() + 5) << data << ", and the ceilings";
  }
}

TEST_F(OnGpuResultFile, OfAMatrixThatDoesNotFitIsOfAHalvedOne) {
  const Finished found =
      run(BENCH, "--matrix 262144x1024 --matrix 262144x262144 --halve-to-fit --dry-run");
  ASSERT_EQ(found.status, 0) << found.err;
  EXPECT_TRUE(contains(found.out, "\n262144x1024 ")) << "rows and columns are at least 1024";
  EXPECT_FALSE(contains(found.out, "\n262144x262144 "));
}

/// Our own lines are above the table, not Google Benchmark's about a CPU or a debug build.
TEST_F(OnGpuResultFile, IsAnnouncedByTheGpuAndTheSelection) {
  const Finished found = run(BENCH, "--shape 64x64 --kernel shared_lut --samples 2 --batch-us 20");
  ASSERT_EQ(found.status, 0) << found.err;
  EXPECT_EQ(found.err, "");
  EXPECT_TRUE(has_match(found.out,
                        "^[^\n]+, driver [^\n]+, CUDA [0-9.]+\n"
                        "nf4: 1 kernels on 1 problems; about 0 s \\(2 samples per row, "
                        "0\\.0 ms each\\); --kernel, --problem and --family select\n"));
}

TEST_F(OnGpuResultFile, OfAnActivityPassSeesLaunches) {
  const Finished found = run(BENCH,
                             "--shape 64x64 --kernel shared_lut --samples 2 --batch-us 20 "
                             "--instrument activity --output results.json");
  ASSERT_EQ(found.status, 0) << found.err;
  const json file = result();
  ASSERT_EQ(file["records"].size(), 1u) << "ceilings are timed by events";
  EXPECT_EQ(file["provenance"]["instrument"], "activity");
  EXPECT_EQ(times_of(file["records"][0]), 2u);
  EXPECT_EQ(file["records"][0]["launch"]["kernels"][0]["block"], json::array({64, 1, 1}));
}

TEST_F(OnGpuResultFile, DryRunNamesTheKernelsThatRefuseAProblemAndWhy) {
  const Finished found = run(BENCH, "--dry-run --matrix 63x65 --shape 64x1024 --block-size 1024");
  EXPECT_EQ(found.status, 0);
  EXPECT_TRUE(has_match(found.out,
                        "\n  refused by [^\n]*tiled, tma_[^\n]*: needs rows and columns "
                        "in multiples of 4"));
  EXPECT_TRUE(contains(found.out,
                       "\n  refused by shared_lut_algorithm1: absmax[blockIdx] reads past the end: "
                       "fewer scales than tiles of 512\n"));
}

/// A matrix of 4 TiB and its transpose.
TEST_F(OnGpuResultFile, OfWhatDoesNotFitSaysSoInEveryRow) {
  for (const bool timed : {true, false}) {
    const Finished found = run(
        BENCH, fmt::format("--family transpose --matrix 1048576x1048576 --instrument {} --output "
                           "results.json",
                           timed ? "events" : "none"));
    EXPECT_EQ(found.status, 2);
    EXPECT_TRUE(ends(found.err, "bench: no selected kernel could run; the reasons are above\n"));
    const json file = result();
    EXPECT_EQ(file["records"].size(), kernel_names("transpose").size() + (timed ? 5 : 0));
    for (const json& record : file["records"]) {
      EXPECT_EQ(record["outcome"], "unsupported") << record["key"];
      EXPECT_TRUE(matches(record["reason"],
                          fmt::format("needs {} GiB of device memory, [0-9.]+ GiB are free; select "
                                      "a smaller problem",
                                      timed ? "32768\\.0" : "12288\\.0")));
    }
  }
}

TEST_F(OnGpuResultFile, IsNotWrittenWhenTheFilterMatchesNothing) {
  const Finished found =
      run(BENCH, "--shape 64x64 --benchmark_filter=nothing --output results.json");
  EXPECT_EQ(found.status, 2);
  EXPECT_EQ(found.err,
            "bench: --benchmark_filter 'nothing' selects nothing; --benchmark_list_tests lists the "
            "rows\n");
  expect_no_files();
}

TEST_F(OnGpuResultFile, IsNotWrittenWhenTestsAreOnlyListed) {
  const Finished found = run(BENCH, "--shape 64x64 --benchmark_list_tests --output results.json");
  EXPECT_EQ(found.status, 0);
  EXPECT_TRUE(contains(found.out, "nf4/64x64/fp16/b64/shared_lut"));
  expect_no_files();
}

TEST_F(OnGpuResultFile, OfAFilteredRunHasTheRowsOfTheFilterAndTheCeilings) {
  const Finished found = run(BENCH,
                             "--shape 64x64 --samples 2 --batch-us 20 --output results.json "
                             "--benchmark_filter='/shared_lut/'");
  ASSERT_EQ(found.status, 0) << found.err;
  std::vector<std::string> kernels;
  const json file = result();
  for (const json& record : file["records"]) {
    if (record["origin"]["kind"] == "project") kernels.push_back(record["kernel"]);
  }
  EXPECT_EQ(kernels, std::vector<std::string>{"shared_lut"});
}

TEST_F(OnGpuResultFile, NamesTheCommitThatItIsGivenAndVouchesForNone) {
  const std::string hash = "0123456789abcdef0123456789abcdef01234567";
  const profiling::ScopedVariable commit("REPROLAB_COMMIT", hash.c_str());
  unsetenv("REPROLAB_DIRTY");  // the environment of the tests may set it
  const auto dirty = [&] {
    const Finished found =
        run(BENCH, "--family nf4 --shape 64x64 --instrument none --output results.json");
    EXPECT_EQ(found.status, 0) << found.err;
    const json provenance = result()["provenance"];
    EXPECT_EQ(provenance["commit"], hash);
    return provenance["dirty"].get<bool>();
  };
  EXPECT_TRUE(dirty());
  {
    const profiling::ScopedVariable clean("REPROLAB_DIRTY", "0");
    EXPECT_FALSE(dirty());
  }
  const profiling::ScopedVariable changed("REPROLAB_DIRTY", "1");
  EXPECT_TRUE(dirty());
  const profiling::ScopedVariable short_one("REPROLAB_COMMIT", "0123abc");
  const Finished refused = run(BENCH, "--family nf4 --shape 64x64 --output refused.json");
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(refused.err, "bench: REPROLAB_COMMIT: give the 40 hexadecimal digits of a commit\n");
}

TEST_F(OnGpuResultFile, WithoutASupportedKernelIsExitStatus2AndOneLine) {
  for (const char* instrument : {"events", "none"}) {
    const Finished found =
        run(BENCH, fmt::format("--shape 64x1024 --block-size 1024 --kernel shared_lut_algorithm1 "
                               "--samples 2 --batch-us 20 --instrument {}",
                               instrument));
    EXPECT_EQ(found.status, 2) << instrument;
    EXPECT_TRUE(ends(found.err, "bench: no selected kernel could run; the reasons are above\n"));
  }
}

/// A path that cannot be written is reported before anything is measured.
TEST_F(OnGpuResultFile, ThatCannotBeWrittenIsOneLine) {
  const Finished found = run(BENCH, "--shape 64x64 --instrument none --output /proc/results.json");
  EXPECT_EQ(found.status, 2);
  EXPECT_EQ(found.out, "");
  EXPECT_EQ(found.err,
            "bench: /proc/results.json: cannot be written (the folder is not writable or is full); "
            "choose "
            "another --output\n");
}

}  // namespace
}  // namespace reprolab
