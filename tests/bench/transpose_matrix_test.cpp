// transpose_matrix, with and without a GPU.
#include "profiling/machine.hpp"
#include "tests/bench/program.hpp"
#include "tests/text.hpp"

namespace reprolab {
namespace {

using nlohmann::json;

class TransposeProgram : public Programs {
 protected:
  void expect_refused(const std::string& arguments, const std::string& line) const {
    expect_refusal(TRANSPOSE_MATRIX, arguments, "transpose_matrix: " + line);
  }
};

TEST_F(TransposeProgram, HelpIsNoError) {
  const Finished found = run_without_gpu(TRANSPOSE_MATRIX, "--help");
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(found.err, "");
  for (const char* option :
       {"--size", "--kernel", "--samples", "--seed", "--instrument", "--output", "--dry-run"}) {
    EXPECT_TRUE(contains(found.out, std::string("  ") + option + " ")) << option;
  }
}

TEST_F(TransposeProgram, DryRunSaysWhatWouldRunAndThatThereIsNoGpu) {
  const Finished found = run_without_gpu(TRANSPOSE_MATRIX, "--dry-run --output a/results.json");
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(found.err, "");
  // Three copies of two matrices of 4 GiB, and two outputs of the verifier's.
  EXPECT_TRUE(matches(
      found.out,
      fmt::format("32768x32768 fp32, {} kernels, random and constant data: 32\\.0 GiB "
                  "of device memory, 16\\.0 GiB of host memory, about half a minute on 16 cores\n"
                  "nothing of it can run here: no device: [^\n]*\n",
                  kernel_names("transpose").size())));
  expect_no_files();
}

TEST_F(TransposeProgram, DryRunTakesTheSizeAndKernelsAskedFor) {
  const Finished found =
      run_without_gpu(TRANSPOSE_MATRIX, "--dry-run --size 16384 --kernel 'tma_.*aive|tiled'");
  EXPECT_EQ(found.status, 0);
  EXPECT_TRUE(begins(found.out,
                     "16384x16384 fp32, 2 kernels, random and constant data: 8.0 GiB of device "
                     "memory, 4.0 GiB of host memory, seconds\n"));
}

TEST_F(TransposeProgram, RefusesBadSelectionsInOneLine) {
  expect_refused("--kernel '['", "--kernel: '[' is not a regular expression");
  for (const char* kernel : {"nothing", "tma", "shared_lut"}) {
    expect_refused(fmt::format("--kernel {}", kernel),
                   fmt::format("--kernel '{}' selects nothing; there are: {}", kernel,
                               fmt::join(kernel_names("transpose"), ", ")));
    expect_refused(fmt::format("--dry-run --kernel {}", kernel),
                   fmt::format("--kernel '{}' selects nothing; there are: {}", kernel,
                               fmt::join(kernel_names("transpose"), ", ")));
  }
}

/// The middle of these texts is CLI11's own and differs between its versions.
TEST_F(TransposeProgram, RefusesWhatTheParserRefusesInOneLine) {
  for (const std::string arguments :
       {"--size 0", "--size -1", "--size 262145", "--size x", "--samples 0", "--samples x",
        "--instrument activity", "--colour", "stray", "--seed -1", "--seed 2147483648", "--kernel",
        "--dry-run --colour"}) {
    const Finished found = run_without_gpu(TRANSPOSE_MATRIX, arguments);
    EXPECT_EQ(found.status, 2) << arguments;
    EXPECT_EQ(found.out, "") << arguments;
    EXPECT_TRUE(matches(found.err, "transpose_matrix: [^\n]+; see transpose_matrix --help\n"))
        << arguments;
  }
}

TEST_F(TransposeProgram, WithoutADeviceIsOneLineAndNoFile) {
  for (const char* instrument : {"events", "none"}) {
    const Finished found = run_without_gpu(
        TRANSPOSE_MATRIX, fmt::format("--instrument {} --output a/results.json", instrument));
    EXPECT_EQ(found.status, 2);
    EXPECT_EQ(found.out, "");
    EXPECT_TRUE(begins(found.err, "transpose_matrix: no device: "));
    EXPECT_TRUE(ends(found.err, " A measurement needs an NVIDIA GPU; --dry-run does without.\n"));
    EXPECT_EQ(lines_of(found.err), 1);
    expect_no_files();
  }
}

class OnGpuTransposeProgram : public TransposeProgram {
 protected:
  void SetUp() override {
    std::string why_not;
    if (!profiling::find_gpu(&why_not)) GTEST_SKIP() << "NOT TESTED, " << why_not;
  }

  json result() const { return read_json(folder_.path() / "results.json"); }
};

TEST_F(OnGpuTransposeProgram, RunsEveryKernelOnBothKindsOfDataAndDecidesEveryClaim) {
  const Finished found = run(TRANSPOSE_MATRIX, "--size 256 --samples 2 --output results.json");
  ASSERT_EQ(found.status, 0) << found.err << found.out;
  const json file = result();
  EXPECT_EQ(file["experiment"], "transpose");
  EXPECT_EQ(file["pass"], "matrix");
  const std::size_t kernels = kernel_names("transpose").size();
  std::size_t random = 0, constant = 0;
  for (const json& record : file["records"]) {
    EXPECT_EQ(record["problem"]["rows"], 256) << record["key"];
    const bool timed = record["problem"]["data"] == "random" && record["outcome"] != "unsupported";
    ++(record["problem"]["data"] == "random" ? random : constant);
    EXPECT_EQ(record["samples_us"].size(), timed ? 2u : 0u) << record["key"];
  }
  EXPECT_EQ(random, kernels + 5) << "and the ceilings";
  EXPECT_EQ(constant, kernels);
  const json claims =
      read_json(project_root() / "data/published/published.json")["transpose_blog"]["claims"];
  EXPECT_EQ(file["verdicts"].size(), claims.size());
  for (const json& verdict : file["verdicts"]) {
    EXPECT_TRUE(has_match(found.out, fmt::format("\n{} +", verdict["claim"].get<std::string>())));
  }
}

TEST_F(OnGpuTransposeProgram, WithoutAnInstrumentVerifiesAndDecidesNothing) {
  const Finished found =
      run(TRANSPOSE_MATRIX, "--size 100 --instrument none --output results.json");
  ASSERT_EQ(found.status, 0) << found.err << found.out;
  const json file = result();
  EXPECT_EQ(file["records"].size(), 2 * kernel_names("transpose").size());
  for (const json& record : file["records"]) EXPECT_TRUE(record["samples_us"].empty());
  EXPECT_TRUE(file["verdicts"].empty());
}

/// 256 GiB and its transpose, of which the kernel's declared output could not be made either.
TEST_F(OnGpuTransposeProgram, WhereNothingFitsIsExitStatus2AndOneLine) {
  const Finished found = run(TRANSPOSE_MATRIX, "--size 262144 --samples 2");
  EXPECT_EQ(found.status, 2);
  EXPECT_TRUE(contains(found.out, "unsupported: needs 2048.0 GiB of device memory, "));
  EXPECT_EQ(found.err, "transpose_matrix: no selected kernel could run; the reasons are above\n");
}

}  // namespace
}  // namespace reprolab
