// replay without a GPU.
#include "tests/programs/program.hpp"
#include "tests/text.hpp"

namespace reprolab {
namespace {

class ReplayProgram : public Programs {
 protected:
  void expect_refused(const std::string& arguments, const std::string& line) const {
    expect_refusal(REPLAY, arguments, "replay: " + line);
  }
};

TEST_F(ReplayProgram, HelpIsNoError) {
  const Finished found = run_without_gpu(REPLAY, "--help");
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(found.err, "");
  for (const char* option :
       {"--models", "--batches", "--kernel", "--peer", "--passes", "--warmup-passes", "--seed",
        "--instrument", "--output-type", "--block-size", "--nested", "--limit-s", "--clocks",
        "--experiment", "--pass", "--output", "--dry-run"}) {
    EXPECT_TRUE(contains(found.out, std::string("  ") + option + " ")) << option;
  }
}

TEST_F(ReplayProgram, DryRunSaysWhatWouldRunAndThatThereIsNoGpu) {
  const Finished found = run_without_gpu(REPLAY, "--dry-run");
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(found.err, "");
  const std::string not_built = "([a-z]+: not built; make [a-z]+\n)*";
  EXPECT_TRUE(matches(
      found.out,
      not_built +
          "model +layers +launches +weights resident +working memory +about\n"
          "gemma-2-27b +46 +322 +14\\.7 GB +[0-9.]+ GB +[0-9]+ s\n"
          "gemma-3-27b +62 +434 +14\\.4 GB +[0-9.]+ GB +[0-9]+ s\n"
          "qwen3-32b +64 +448 +17\\.6 GB +[0-9.]+ GB +[0-9]+ s\n"
          "llama-3\\.3-70b +80 +560 +38\\.5 GB +[0-9.]+ GB +[0-9]+ s\n"
          "[0-9]+ kernels, batches 2, 4, 8, 16, 32, 64, 1 warm-up and 3 measured passes each: "
          "about [0-9]+ s, and the time to make the data\n"
          "a kernel whose turn does not end within 20 s \\(--limit-s\\) loses its rows\n"
          "clocks are observed, not locked\n"
          "none of this can run here: no device: [^\n]*\n"));
  expect_no_files();
}

TEST_F(ReplayProgram, DryRunTakesTheFormatAskedFor) {
  const Finished found = run_without_gpu(
      REPLAY, "--dry-run --models llama-3.3-70b --nested --block-size 128 --batches 1,3");
  EXPECT_EQ(found.status, 0);
  EXPECT_TRUE(has_match(found.out, "\nllama-3\\.3-70b +80 +560 +34\\.8 GB "));
  EXPECT_TRUE(contains(found.out, "batches 1, 3, "));
}

TEST_F(ReplayProgram, DryRunTakesTheModelsAskedFor) {
  const Finished found =
      run_without_gpu(REPLAY, "--dry-run --models llama-3.1-8b --kernel shared_lut");
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(lines_of(found.out), 6) << found.out;
  EXPECT_TRUE(contains(found.out, "\nllama-3.1-8b "));
  EXPECT_TRUE(contains(found.out, "\n1 kernels, "));
}

TEST_F(ReplayProgram, RefusesBadSelectionsInOneLine) {
  expect_refused("--models gpt",
                 "no model 'gpt'; known: gemma-2-27b, gemma-3-27b, qwen3-32b, llama-3.3-70b, "
                 "llama-3.1-8b, qwen3-8b");
  expect_refused("--instrument events",
                 "--instrument: events cannot separate a pass's dequantizations from its products; "
                 "give activity or none");
  expect_refused("--instrument counters",
                 "--instrument: counters are read of a kernel alone, not in a forward pass; `bench "
                 "--instrument counters` reads them");
  expect_refused("--block-size 48",
                 "--block-size: expected a power of two from 32 to 4096; got 48");
  expect_refused("--block-size 64,128", "--block-size: expected one value; got 2");
  expect_refused("--output-type fp16,bf16,fp16", "--output-type: expected one value; got 3");
  expect_refused("--kernel nothing", no_such_kernel("nothing", {"nf4"}));
  expect_refused("--kernel lut", no_such_kernel("lut", {"nf4"}));
  expect_refused("--peer /nonexistent/a.so",
                 "peer /nonexistent/a.so: no such file; give the path of "
                 "libbitsandbytes_cuda*.so");
}

/// The middle of these texts comes from CLI11 and differs between its versions.
TEST_F(ReplayProgram, RefusesWhatTheParserRefusesInOneLine) {
  for (const std::string arguments :
       {"--passes 0", "--passes x", "--batches 0", "--instrument cupti", "--colour", "stray",
        "--seed -1", "--seed 2147483648", "--kernel", "--dry-run --colour"}) {
    const Finished found = run_without_gpu(REPLAY, arguments);
    EXPECT_EQ(found.status, 2) << arguments;
    EXPECT_EQ(found.out, "") << arguments;
    EXPECT_TRUE(matches(found.err, "replay: [^\n]+; see replay --help\n")) << arguments;
  }
}

TEST_F(ReplayProgram, WithoutADeviceIsOneLineAndNoFile) {
  for (const char* instrument : {"activity", "none"}) {
    const Finished found =
        run_without_gpu(REPLAY, fmt::format("--instrument {} --output a/results.json", instrument));
    EXPECT_EQ(found.status, 2);
    EXPECT_EQ(found.out, "");
    EXPECT_TRUE(begins(found.err, "replay: no device: "));
    EXPECT_TRUE(ends(found.err, " A measurement needs an NVIDIA GPU; --dry-run needs none.\n"));
    EXPECT_EQ(lines_of(found.err), 1);
    expect_no_files();
  }
}

}  // namespace
}  // namespace reprolab
