// table2_replay without a GPU.
#include "tests/bench/program.hpp"
#include "tests/text.hpp"

namespace reprolab {
namespace {

class Table2Program : public Programs {
 protected:
  void expect_refused(const std::string& arguments, const std::string& line) const {
    expect_refusal(TABLE2_REPLAY, arguments, "table2_replay: " + line);
  }
};

TEST_F(Table2Program, HelpIsNoError) {
  const Finished found = run_without_gpu(TABLE2_REPLAY, "--help");
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(found.err, "");
  for (const char* option : {"--models", "--kernel", "--peer", "--passes", "--seed", "--instrument",
                             "--output", "--dry-run"}) {
    EXPECT_TRUE(contains(found.out, std::string("  ") + option + " ")) << option;
  }
}

TEST_F(Table2Program, DryRunSaysWhatWouldRunAndThatThereIsNoGpu) {
  const Finished found = run_without_gpu(TABLE2_REPLAY, "--dry-run");
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(found.err, "");
  EXPECT_TRUE(matches(found.out,
                      "model +layers +launches +weights resident +and to work in +about\n"
                      "gemma-2-27b +46 +322 +14\\.7 GB +2\\.7 GB +[0-9]+ s\n"
                      "gemma-3-27b +62 +434 +14\\.4 GB +2\\.3 GB +[0-9]+ s\n"
                      "qwen3-32b +64 +448 +17\\.6 GB +2\\.5 GB +[0-9]+ s\n"
                      "llama-3\\.3-70b +80 +560 +38\\.5 GB +3\\.6 GB +[0-9]+ s\n"
                      "[0-9]+ kernels, batches 2 to 64, 4 passes each: about [0-9]+ s and the "
                      "data's making\n"
                      "nothing of it can run here: no device: [^\n]*\n"));
  expect_no_files();
}

TEST_F(Table2Program, DryRunTakesTheModelsAskedFor) {
  const Finished found =
      run_without_gpu(TABLE2_REPLAY, "--dry-run --models llama-3.1-8b --kernel shared_lut");
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(lines_of(found.out), 4) << found.out;
  EXPECT_TRUE(contains(found.out, "\nllama-3.1-8b "));
  EXPECT_TRUE(contains(found.out, "\n1 kernels, "));
}

TEST_F(Table2Program, RefusesBadSelectionsInOneLine) {
  expect_refused("--models gpt",
                 "no model 'gpt'; known: gemma-2-27b, gemma-3-27b, qwen3-32b, llama-3.3-70b, "
                 "llama-3.1-8b, qwen3-8b");
  expect_refused("--kernel '['", "--kernel: '[' is not a regular expression");
  expect_refused("--kernel nothing",
                 fmt::format("--kernel 'nothing' selects nothing; there are: {}",
                             fmt::join(kernel_names("nf4"), ", ")));
  expect_refused("--kernel lut", fmt::format("--kernel 'lut' selects nothing; there are: {}",
                                             fmt::join(kernel_names("nf4"), ", ")));
  expect_refused("--peer /nonexistent/a.so",
                 "peer /nonexistent/a.so: no such file; give the path of "
                 "libbitsandbytes_cuda*.so");
}

/// The middle of these texts is CLI11's own and differs between its versions.
TEST_F(Table2Program, RefusesWhatTheParserRefusesInOneLine) {
  for (const std::string arguments :
       {"--passes 0", "--passes x", "--instrument events", "--colour", "stray", "--seed -1",
        "--seed 2147483648", "--kernel", "--dry-run --colour"}) {
    const Finished found = run_without_gpu(TABLE2_REPLAY, arguments);
    EXPECT_EQ(found.status, 2) << arguments;
    EXPECT_EQ(found.out, "") << arguments;
    EXPECT_TRUE(matches(found.err, "table2_replay: [^\n]+; see table2_replay --help\n"))
        << arguments;
  }
}

TEST_F(Table2Program, WithoutADeviceIsOneLineAndNoFile) {
  for (const char* instrument : {"activity", "none"}) {
    const Finished found = run_without_gpu(
        TABLE2_REPLAY, fmt::format("--instrument {} --output a/results.json", instrument));
    EXPECT_EQ(found.status, 2);
    EXPECT_EQ(found.out, "");
    EXPECT_TRUE(begins(found.err, "table2_replay: no device: "));
    EXPECT_TRUE(ends(found.err, " A measurement needs an NVIDIA GPU; --dry-run does without.\n"));
    EXPECT_EQ(lines_of(found.err), 1);
    expect_no_files();
  }
}

}  // namespace
}  // namespace reprolab
