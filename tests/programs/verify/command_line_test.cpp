// The program as its users see it: exit statuses and texts.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>

#include "tests/programs/verify/checkpoint_builder.hpp"

namespace reprolab::reference {
namespace {

struct Finished {
  int status = -1;
  std::string out;
  std::string err;
};

class VerifyProgram : public testing::Test {
 protected:
  Finished run(const std::string& arguments) {
    const auto out = folder_.path() / "stdout";
    const auto err = folder_.path() / "stderr";
    // Without kernels, so that the result is the same on a machine with a GPU.
    const int code = std::system(
        fmt::format("cd '{0}' && CUDA_VISIBLE_DEVICES= >'{3}' 2>'{4}' '{1}' {2}",
                    folder_.path().string(), VERIFY_PROGRAM, arguments, out.string(), err.string())
            .c_str());
    return {WIFEXITED(code) ? WEXITSTATUS(code) : -1, content(out), content(err)};
  }

  std::string file(const std::vector<BuilderTensor>& tensors) {
    return folder_.write("a.safetensors", safetensors_bytes(tensors)).string();
  }

  TemporaryFolder folder_;
};

TEST_F(VerifyProgram, ProvesTheGoldenFile) {
  const Finished run_result = run(GOLDEN_FILE " --threads 2");
  EXPECT_EQ(run_result.status, 0);
  EXPECT_EQ(run_result.err, "");
  EXPECT_TRUE(run_result.out.starts_with(GOLDEN_FILE ": 86 quantized tensors\n"));
  EXPECT_TRUE(run_result.out.ends_with(
      "  reference  bit_exact 86\n  quantizer  bit_exact 86\n"
      "checked: 86 of 116 tensors: 86 with stored outputs, 86 with what was quantized\n"
      "not checked: 30 tensors of F32\n"))
      << run_result.out;
}

TEST_F(VerifyProgram, ADryRunSaysWhatWouldBeChecked) {
  const Finished found = run(GOLDEN_FILE " --dry-run");
  EXPECT_EQ(found.status, 0);
  EXPECT_TRUE(
      found.out.ends_with("\nto check: 86 tensors with 0.6575 million weights; about 0.0 GB of "
                          "memory\nnot to check: 30 tensors of F32\n"))
      << found.out;
  EXPECT_EQ(run("/nonexistent --dry-run").status, 2);
}

TEST_F(VerifyProgram, ListsTheWeightsForPrograms) {
  const Finished found = run(file(valid_tensors()) + " --list");
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_EQ(found.out,
            R"([{"block_size":64,"name":"layer.weight","nested":false,"output":"bfloat16",)"
            "\"shape\":[3,67]}]\n");
}

/// The later redirection wins.
TEST_F(VerifyProgram, OutputThatIsLostIsAnError) {
  const Finished full = run(GOLDEN_FILE " >/dev/full");
  EXPECT_EQ(full.status, 2);
  EXPECT_EQ(full.err, "verify: output to stdout was lost; is the disk full?\n");
  const auto closed = [](const char* stream, const char* rest) {
    const std::string command = fmt::format("CUDA_VISIBLE_DEVICES= '{}' " GOLDEN_FILE " {}>&- {}",
                                            VERIFY_PROGRAM, stream, rest);
    const int code = std::system(command.c_str());
    return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
  };
  EXPECT_EQ(closed("1", "2>/dev/null"), 2);
  EXPECT_EQ(closed("2", ">/dev/null"), 2);
  EXPECT_EQ(closed("0", ">/dev/null"), 0);
}

TEST_F(VerifyProgram, InBriefShowsOnlyTensorsWithAFailure) {
  const Finished sound = run(GOLDEN_FILE " --brief");
  EXPECT_EQ(sound.status, 0);
  EXPECT_EQ(sound.out.find("case0"), std::string::npos) << sound.out;
  EXPECT_NE(sound.out.find("  reference  bit_exact 86\n"), std::string::npos) << sound.out;
  auto tensors = valid_tensors({.nested = true});
  tensor_named(tensors, "layer.dequantized").data[2 * 70] ^= 1;
  const std::string faulty = file(tensors);
  EXPECT_EQ(run(faulty + " --brief").out, run(faulty).out);
}

TEST_F(VerifyProgram, TellsAFlippedBitAndDumpsBothSides) {
  auto tensors = valid_tensors({.nested = true});
  tensor_named(tensors, "layer.dequantized").data[2 * 70] ^= 1;
  const auto dump = folder_.path() / "dump";
  const Finished result = run(file(tensors) + " --dump " + dump.string());
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(
      result.out.find("  reference: mismatch: 1 of 201 weights differ, by at most 1 ULP; first at "
                      "index 70 (row 1, column 3): block 1, code "),
      std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("1 ULP apart\n"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("  reference  mismatch 1\n"), std::string::npos) << result.out;
  const std::string expected = content(dump / "layer.weight.reference.expected.npy");
  const std::string actual = content(dump / "layer.weight.reference.actual.npy");
  ASSERT_EQ(expected.size(), 128u + 402u);
  EXPECT_EQ(expected.substr(128), tensor_named(tensors, "layer.dequantized").data);
  EXPECT_EQ(expected[128 + 140] ^ 1, actual[128 + 140]);
}

TEST_F(VerifyProgram, TellsAWrongCodeOfTheQuantizer) {
  auto tensors = valid_tensors({.dequantized = false, .source = true});
  tensor_named(tensors, "layer.weight").data[50] ^= 0x20;
  const Finished result = run(file(tensors));
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.out.find("  quantizer: mismatch: 1 of 201 codes differ: 0 explained by "
                            "subnormals, 0 by the approximate reciprocal, 1 unexplained; 0 scales "
                            "differ\n"),
            std::string::npos)
      << result.out;
}

TEST_F(VerifyProgram, SaysWhenThereIsNothingToCompareWith) {
  const Finished result = run(file(valid_tensors({.dequantized = false})));
  EXPECT_EQ(result.status, 0);
  EXPECT_NE(result.out.find(
                "  reference  not_verified 1 (the file holds no .dequantized to compare with)\n"),
            std::string::npos)
      << result.out;
}

/// Otherwise a newline forges a line of the summary, and an escape sequence rewrites the screen.
TEST_F(VerifyProgram, NothingOfAFileReachesTheTerminalRaw) {
  auto tensors = valid_tensors();
  for (auto& tensor : tensors) {
    tensor.name.replace(0, 5, "l\\u000aer\\u001b[2J\u202e");  // as JSON spells it
  }
  const auto path = folder_.write("a\n  reference  bit_exact 9", safetensors_bytes(tensors));
  const Finished result = run(fmt::format("'{}'", path.string()));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(result.out.starts_with(folder_.path().string() + "/a\\x0a  reference  bit_exact 9: "))
      << result.out;
  EXPECT_NE(result.out.find("\nl\\x0aer\\x1b[2J\\u202e.weight: [3, 67] bf16"), std::string::npos)
      << result.out;
  const auto raw = folder_.write("b\n\x1b", "");
  EXPECT_TRUE(
      run(fmt::format("'{}'", raw.string()))
          .err.starts_with("verify: " + folder_.path().string() + "/b\\x0a\\x1b: has 0 bytes"));
}

TEST_F(VerifyProgram, VerifiesAllTensorsOfAFolder) {
  auto tensors = valid_tensors({.name = "a"});
  for (const auto& tensor : valid_tensors({.name = "b", .dequantized = false, .source = true})) {
    tensors.push_back(tensor);
  }
  for (const auto& tensor : valid_tensors({.name = "c", .dequantized = false})) {
    tensors.push_back(tensor);
  }
  tensors.push_back({"int8.weight", "I8", {1}, "x"});
  tensors.push_back({"int8.SCB", "F32", {1}, "abcd"});
  tensors.push_back({"head.weight", "BF16", {1}, "ab"});
  const auto files = write_shards(folder_, tensors, 150);
  const Finished result = run(folder_.path().string() + " --brief");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(result.out.starts_with(
      fmt::format("{}: 3 quantized tensors in {} files\n", folder_.path().string(), files.size())))
      << result.out;
  EXPECT_TRUE(result.out.ends_with(
      "summary, in tensors:\n"
      "  reference  bit_exact 1  not_verified 2 (the file holds no .dequantized to compare with)\n"
      "  quantizer  bit_exact 1\n"
      "checked: 2 of 5 tensors: 1 with stored outputs, 1 with what was quantized\n"
      "not checked: 1 tensor of NF4, dequantized by the reference with nothing to compare with, "
      "which proves nothing\n"
      "not checked: 1 tensor of LLM.int8(), 1 of BF16\n"))
      << result.out;
  const auto index = folder_.path() / "model.safetensors.index.json";
  const auto from = [&](const Finished& run) { return run.out.substr(run.out.find("summary")); };
  EXPECT_EQ(from(run(index.string() + " --brief")), from(result));
  std::string all;
  for (const auto& file : files) all += file.string() + " ";
  const Finished of_files = run(all + "--brief");
  EXPECT_EQ(from(of_files), from(result));
  EXPECT_TRUE(of_files.out.starts_with(
      fmt::format("{} and {} more: ", files[0].string(), files.size() - 1)))
      << of_files.out;
}

TEST_F(VerifyProgram, APathMayHoldAnyCharacters) {
  for (const std::string name : {"[a,b]", "a b", "-x", "a;#:$x\"y", "%s{}", "größe"}) {
    const auto path = folder_.write(name, safetensors_bytes(valid_tensors()));
    const Finished whole = run(fmt::format("'{}'", path.string()));
    EXPECT_EQ(whole.status, 0) << whole.err;
    const Finished alone = run(fmt::format("--threads 1 -- '{}'", name));
    EXPECT_EQ(alone.status, 0) << alone.err;
    std::filesystem::remove(path);
  }
}

struct Refusal {
  std::string arguments;
  std::string line;
};

TEST_F(VerifyProgram, RefusesWrongUsageInOneLine) {
  const auto bad = folder_.write("bad", "123").string();
  const std::vector<Refusal> refusals = {
      {"a --threads 0",
       "--threads: give a whole number from 1 to 4096, not '0'; see verify --help"},
      {"a --threads x",
       "--threads: give a whole number from 1 to 4096, not 'x'; see verify --help"},
      {"/nonexistent/a", "/nonexistent/a: cannot be opened: No such file or directory"},
      {bad, bad + ": has 3 bytes, fewer than the 8 of a safetensors header length; the file is "
                  "damaged or was cut short; download it again"},
  };
  for (const auto& [arguments, line] : refusals) {
    const Finished result = run(arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_EQ(result.out, "") << arguments;
    EXPECT_EQ(result.err, "verify: " + line + "\n") << arguments;
  }
}

/// These texts come from CLI11 and differ between its versions.
TEST_F(VerifyProgram, RefusesUnknownAndMissingArgumentsInOneLine) {
  for (const std::string arguments : {"", "a --colour", "a --dump"}) {
    const Finished result = run(arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_TRUE(result.err.starts_with("verify: ")) << result.err;
    EXPECT_TRUE(result.err.ends_with("; see verify --help\n")) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

/// Two weights, each with an output that differs from the stored one in its first bit.
std::vector<BuilderTensor> two_mismatches(const std::string& a, const std::string& b) {
  auto tensors = valid_tensors({.name = a});
  const auto second = valid_tensors({.name = b});
  tensors.insert(tensors.end(), second.begin(), second.end());
  for (const auto& name : {a, b}) tensor_named(tensors, name + ".dequantized").data[0] ^= 1;
  return tensors;
}

TEST_F(VerifyProgram, ADumpThatFailsDoesNotEndTheChecks) {
  const Finished result = run(file(two_mismatches("a", "b")) + " --dump /dev/null");
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err,
            "verify: cannot write /dev/null/a.weight.reference.expected.npy; check that the folder "
            "exists and has room\n"
            "verify: cannot write /dev/null/b.weight.reference.expected.npy; check that the folder "
            "exists and has room\n");
  EXPECT_NE(result.out.find("  reference  mismatch 2\n"), std::string::npos) << result.out;
}

TEST_F(VerifyProgram, AMismatchInTheFirstOfTwoTensorsIsTheResult) {
  auto tensors = two_mismatches("a", "b");
  tensor_named(tensors, "b.dequantized").data[0] ^= 1;
  const Finished result = run(file(tensors));
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.out.find("  reference  bit_exact 1  mismatch 1\n"), std::string::npos)
      << result.out;
}

TEST_F(VerifyProgram, NoTwoTensorsShareADump) {
  const auto dump = folder_.path() / "dump";
  run(file(two_mismatches("a/b", "a_b")) + " --dump " + dump.string());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dump), {}), 4);
  EXPECT_TRUE(std::filesystem::exists(dump / "a_b.weight.reference.expected.npy"));
}

TEST_F(VerifyProgram, LongNamesAreShortenedInDumps) {
  const auto dump = folder_.path() / "dump";
  const std::string name(300, 'n');
  const Finished result =
      run(file(two_mismatches(name + "1", name + "2")) + " --dump " + dump.string());
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dump), {}), 4);
}

TEST_F(VerifyProgram, HelpIsNoError) {
  const Finished result = run("--help");
  EXPECT_EQ(result.status, 0);
  EXPECT_NE(result.out.find("--dump DIR"), std::string::npos) << result.out;
}

}  // namespace
}  // namespace reprolab::reference
