// The program latency: what it plans and refuses, and the file that it writes.
#include "profiling/machine.hpp"
#include "tests/programs/program.hpp"
#include "tests/text.hpp"

namespace reprolab {
namespace {

const std::vector<std::string> rows = {
    "empty_chain",   "shared_load",         "shared_store", "shared_store_to_load",
    "constant_load", "global_l1",           "global_l2",    "global_l2_one_line",
    "global_dram",   "global_dram_by_page",
};

class LatencyProgram : public Programs {
 protected:
  void expect_refused(const std::string& arguments, const std::string& line) const {
    expect_refusal(LATENCY, arguments, "latency: " + line);
  }
};

TEST_F(LatencyProgram, HelpIsNoError) {
  const Finished found = run_without_gpu(LATENCY, "--help");
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(found.err, "");
  for (const char* option : {"--kernel", "--samples", "--seed", "--instrument", "--limit-s",
                             "--experiment", "--pass", "--output", "--dry-run"}) {
    EXPECT_TRUE(contains(found.out, std::string("  ") + option + " ")) << option;
  }
}

TEST_F(LatencyProgram, DryRunListsEveryRowInOrderAndThatThereIsNoGpu) {
  const Finished found = run_without_gpu(LATENCY, "--dry-run --samples 7");
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(found.err, "");
  std::string expected = "kernel +nodes +memory +about\n";
  for (const auto& row : rows) expected += row + " +[0-9xB]+ +[0-9.]+ GiB +[0-9.]+ s\n";
  expected.replace(expected.find("[0-9xB]+"), 8, "nothing");
  EXPECT_TRUE(matches(found.out,
                      expected +
                          "7 samples per row; about [0-9]+ s\n"
                          "a kernel whose turn does not end within 20 s \\(--limit-s\\) loses its "
                          "rows\nclocks are observed, not locked\n"
                          "none of this can run here: no device: [^\n]*\n"))
      << found.out;
  expect_no_files();
}

TEST_F(LatencyProgram, DryRunTakesTheRowsAskedFor) {
  const Finished found = run_without_gpu(LATENCY, "--dry-run --kernel 'global_*|shared_load'");
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(lines_of(found.out), 1 + 6 + 4) << found.out;
}

TEST_F(LatencyProgram, RefusesBadSelectionsInOneLine) {
  auto known = rows;
  std::ranges::sort(known);
  for (const char* also : {"", " --dry-run"}) {
    expect_refused(
        fmt::format("--kernel global{}", also),
        fmt::format("--kernel 'global' selects nothing; there are: {}", fmt::join(known, ", ")));
  }
}

/// The middle of these texts comes from CLI11 and differs between its versions.
TEST_F(LatencyProgram, RefusesWhatTheParserRefusesInOneLine) {
  for (const std::string arguments :
       {"--samples 0", "--samples x", "--instrument clock", "--limit-s 0", "--colour", "stray",
        "--seed -1", "--kernel", "--dry-run --colour"}) {
    const Finished found = run_without_gpu(LATENCY, arguments);
    EXPECT_EQ(found.status, 2) << arguments;
    EXPECT_EQ(found.out, "") << arguments;
    EXPECT_TRUE(matches(found.err, "latency: [^\n]+; see latency --help\n")) << arguments;
  }
}

TEST_F(LatencyProgram, WithoutADeviceIsOneLineAndNoFile) {
  const Finished found = run_without_gpu(LATENCY, "--output a/results.json");
  EXPECT_EQ(found.status, 2);
  EXPECT_EQ(found.out, "");
  EXPECT_TRUE(begins(found.err, "latency: no device: "));
  EXPECT_TRUE(ends(found.err, " A measurement needs an NVIDIA GPU; --dry-run needs none.\n"));
  EXPECT_EQ(lines_of(found.err), 1);
  expect_no_files();
}

class OnGpuLatencyFile : public Programs {
 protected:
  void SetUp() override {
    std::string why_not;
    if (!profiling::find_gpu(&why_not)) GTEST_SKIP() << "NOT TESTED, " << why_not;
  }
};

TEST_F(OnGpuLatencyFile, HasEveryRowWithItsSamples) {
  const Finished found =
      run(LATENCY, "--experiment counters --pass latency --samples 2 --output results.json");
  ASSERT_EQ(found.status, 0) << found.out << found.err;
  const nlohmann::json file = read_json(folder_.path() / "results.json");
  EXPECT_EQ(file["experiment"], "counters");
  EXPECT_EQ(file["pass"], "latency");
  EXPECT_EQ(file["provenance"]["instrument"], "events");
  ASSERT_EQ(file["records"].size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& record = file["records"][i];
    EXPECT_EQ(record["kernel"], rows[i]);
    EXPECT_EQ(record["outcome"], "bit_exact") << record["reason"];
    EXPECT_EQ(record["problem"]["family"], "latency");
    const auto& metric = record["metrics"].back();
    EXPECT_EQ(metric["name"], "latency");
    EXPECT_EQ(metric["unit"], "cycles");
    EXPECT_EQ(metric["samples"].size(), 2u);
    EXPECT_TRUE(record["clocks"]["sm_mhz_during"].is_number());
    EXPECT_TRUE(has_match(found.out, rows[i] + " +[0-9.]+ bit_exact\n"));
  }
}

TEST_F(OnGpuLatencyFile, OfARunWithoutAnInstrumentHasVerdictsAlone) {
  const Finished found =
      run(LATENCY, "--kernel 'shared_*' --instrument none --output results.json");
  ASSERT_EQ(found.status, 0) << found.out << found.err;
  const nlohmann::json file = read_json(folder_.path() / "results.json");
  EXPECT_EQ(file["records"].size(), 3u);
  for (const auto& record : file["records"]) {
    EXPECT_EQ(record["outcome"], "bit_exact");
    EXPECT_TRUE(record["metrics"].empty());
  }
}

}  // namespace
}  // namespace reprolab
