// The program puzzle: what it plans and refuses, and the file that it writes.
#include "profiling/machine.hpp"
#include "tests/programs/program.hpp"
#include "tests/text.hpp"

namespace reprolab {
namespace {

class PuzzleProgram : public Programs {
 protected:
  void expect_refused(const std::string& arguments, const std::string& line) const {
    expect_refusal(PUZZLE, arguments, "puzzle: " + line);
  }
};

TEST_F(PuzzleProgram, HelpIsNoError) {
  const Finished found = run_without_gpu(PUZZLE, "--help");
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(found.err, "");
  for (const char* option :
       {"--kernel", "--peer", "--iterations", "--samples", "--seed", "--instrument", "--limit-s",
        "--clocks", "--experiment", "--pass", "--output", "--dry-run"}) {
    EXPECT_TRUE(contains(found.out, std::string("  ") + option + " ")) << option;
  }
}

TEST_F(PuzzleProgram, DryRunSaysWhatWouldRunAndThatThereIsNoGpu) {
  const Finished found = run_without_gpu(PUZZLE, "--dry-run");
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(found.err, "");
  const std::string not_built = "([a-z]+: not built; make [a-z]+\n)*";
  EXPECT_TRUE(matches(
      found.out, not_built +
                     "MLP +output +weights in up, gate and down +bytes moved\n"
                     "2048x8192 +fp16 +50331648 +126\\.63 GB\n"
                     "1024x4096 +bf16 +12582912 +31\\.66 GB\n"
                     "4096x14336 +bf16 +176160768 +443\\.20 GB\n"
                     "[0-9]+ kernels and 3 ceilings, three MLPs, 1000 times: 601\\.48 GB in 9000 "
                     "launches, 5 samples of both ways: about [0-9]+ s, and the time to make the "
                     "data\n"
                     "a kernel whose turn does not end within 120 s \\(--limit-s\\) loses its "
                     "rows\n"
                     "clocks are observed, not locked\n"
                     "none of this can run here: no device: [^\n]*\n"))
      << found.out;
  expect_no_files();
}

TEST_F(PuzzleProgram, DryRunTakesTheIterationsAndKernelsAskedFor) {
  const Finished found = run_without_gpu(
      PUZZLE, "--dry-run --iterations 10 --samples 2 --kernel 'scalar_store|packed_store'");
  EXPECT_EQ(found.status, 0);
  EXPECT_TRUE(contains(found.out,
                       "\n2 kernels and 3 ceilings, three MLPs, 10 times: 6.01 GB in 90 launches, "
                       "2 samples "))
      << found.out;
}

TEST_F(PuzzleProgram, RefusesBadSelectionsInOneLine) {
  for (const char* also : {"", " --dry-run"}) {
    expect_refused(fmt::format("--kernel store{}", also), no_such_kernel("store", {"nf4"}));
    for (const char* instrument : {"activity", "counters"}) {
      expect_refused(fmt::format("--instrument {}{}", instrument, also),
                     "--instrument: the puzzle is timed by the host's clock and by events; give "
                     "events or none");
    }
    expect_refused(fmt::format("--peer /nonexistent/a.so{}", also),
                   "peer /nonexistent/a.so: no such file; give the path of "
                   "libbitsandbytes_cuda*.so");
  }
}

/// The middle of these texts comes from CLI11 and differs between its versions.
TEST_F(PuzzleProgram, RefusesWhatTheParserRefusesInOneLine) {
  for (const std::string arguments :
       {"--iterations 0", "--iterations x", "--samples 0", "--instrument clock", "--colour",
        "stray", "--kernel", "--dry-run --colour"}) {
    const Finished found = run_without_gpu(PUZZLE, arguments);
    EXPECT_EQ(found.status, 2) << arguments;
    EXPECT_EQ(found.out, "") << arguments;
    EXPECT_TRUE(matches(found.err, "puzzle: [^\n]+; see puzzle --help\n")) << arguments;
  }
}

TEST_F(PuzzleProgram, WithoutADeviceIsOneLineAndNoFile) {
  const Finished found = run_without_gpu(PUZZLE, "--output a/results.json");
  EXPECT_EQ(found.status, 2);
  EXPECT_EQ(found.out, "");
  EXPECT_TRUE(begins(found.err, "puzzle: no device: "));
  EXPECT_EQ(lines_of(found.err), 1);
  expect_no_files();
}

class OnGpuPuzzleFile : public Programs {
 protected:
  void SetUp() override {
    std::string why_not;
    if (!profiling::find_gpu(&why_not)) GTEST_SKIP() << "NOT TESTED, " << why_not;
  }
};

TEST_F(OnGpuPuzzleFile, HasEveryRowWithBothTimesAndNoBarInAFile) {
  const Finished found = run(PUZZLE,
                             "--kernel 'scalar_store|packed_store' --iterations 4 --samples 2 "
                             "--output results.json");
  ASSERT_EQ(found.status, 0) << found.out << found.err;
  EXPECT_EQ(found.err, "");
  const nlohmann::json file = read_json(folder_.path() / "results.json");
  EXPECT_EQ(file["experiment"], "puzzle");
  EXPECT_EQ(file["pass"], "mlps");
  ASSERT_EQ(file["records"].size(), 5u);
  for (const auto& record : file["records"]) {
    SCOPED_TRACE(record["kernel"]);
    const bool is_ceiling = record["origin"]["kind"] == "ceiling";
    EXPECT_EQ(record["outcome"], is_ceiling ? "not_verified" : "bit_exact") << record["reason"];
    EXPECT_EQ(record["problem"]["name"], "three MLPs, 4 times");
    EXPECT_EQ(record["metrics"].size(), 8u);
    for (const auto& metric : record["metrics"]) {
      EXPECT_EQ(metric["unit"], "us");
      EXPECT_EQ(metric["samples"].size(), 2u) << metric["name"];
    }
    EXPECT_TRUE(record["clocks"]["sm_mhz_during"].is_number());
  }
}

TEST_F(OnGpuPuzzleFile, OfARunWithoutAnInstrumentHasVerdictsAlone) {
  const Finished found =
      run(PUZZLE, "--kernel packed_store --instrument none --output results.json");
  ASSERT_EQ(found.status, 0) << found.out << found.err;
  const nlohmann::json file = read_json(folder_.path() / "results.json");
  ASSERT_EQ(file["records"].size(), 1u);
  EXPECT_EQ(file["records"][0]["outcome"], "bit_exact");
  EXPECT_TRUE(file["records"][0]["metrics"].empty());
}

}  // namespace
}  // namespace reprolab
