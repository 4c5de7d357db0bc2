// The program's exit statuses and output. Without kernels, so that the result is the same on a
// machine with a GPU.
#include "tests/programs/program.hpp"
#include "tests/programs/verify/checkpoint_builder.hpp"

namespace reprolab::reference {
namespace {

const std::string verify_program = built("verify");

class VerifyProgram : public Programs {
 protected:
  Finished verify(const std::string& arguments) const {
    return run_without_gpu(verify_program, arguments);
  }

  std::string file(const std::vector<BuilderTensor>& tensors) const {
    return folder_.write("a.safetensors", safetensors_bytes(tensors)).string();
  }
};

/// A nested weight whose stored output differs in one bit.
std::vector<BuilderTensor> one_flipped_bit() {
  auto tensors = valid_tensors({.nested = true});
  tensor_named(tensors, "layer.dequantized").data[2 * 70] ^= 1;
  return tensors;
}

TEST_F(VerifyProgram, ProvesTheGoldenFile) {
  const std::string report = output_of(verify_program, GOLDEN_FILE " --threads 2");
  EXPECT_TRUE(begins(report, GOLDEN_FILE ": 86 quantized tensors\n"));
  EXPECT_TRUE(
      ends(report,
           "  reference  bit_exact 86\n  quantizer  bit_exact 86\n"
           "checked: 86 of 116 tensors: 86 with stored outputs, 86 with what was quantized\n"
           "not checked: 30 tensors of F32\n"));
  EXPECT_TRUE(ends(output_of(verify_program, GOLDEN_FILE " --dry-run"),
                   "\nto check: 86 tensors with 0.6575 million weights; about 0.0 GB of memory\n"
                   "not to check: 30 tensors of F32\n"));
  EXPECT_EQ(verify("/nonexistent --dry-run").status, 2);
  EXPECT_TRUE(contains(output_of(verify_program, "--help"), "--dump DIR"));
}

TEST_F(VerifyProgram, ListsTheWeightsForPrograms) {
  EXPECT_EQ(verify(file(valid_tensors()) + " --list").out,
            R"([{"block_size":64,"name":"layer.weight","nested":false,"output":"bfloat16",)"
            "\"shape\":[3,67]}]\n");
}

TEST_F(VerifyProgram, InBriefShowsOnlyFailedTensors) {
  const std::string sound = output_of(verify_program, GOLDEN_FILE " --brief");
  EXPECT_FALSE(contains(sound, "case0"));
  EXPECT_TRUE(contains(sound, "  reference  bit_exact 86\n"));
  const std::string faulty = file(one_flipped_bit());
  EXPECT_EQ(verify(faulty + " --brief").out, verify(faulty).out);
}

TEST_F(VerifyProgram, ReportsAFlippedBitAndDumpsBothSides) {
  auto tensors = one_flipped_bit();
  const OwnFolder dump;
  const Finished finished = verify(file(tensors) + " --dump " + dump.path().string());
  EXPECT_EQ(finished.status, 1);
  EXPECT_TRUE(contains(finished.out,
                       "  reference: mismatch: 1 of 201 weights differ, by at most 1 ULP; first at "
                       "index 70 (row 1, column 3): block 1, code "));
  EXPECT_TRUE(contains(finished.out, "1 ULP apart\n"));
  EXPECT_TRUE(contains(finished.out, "  reference  mismatch 1\n"));
  const std::string expected = content_of(dump.path() / "layer.weight.reference.expected.npy");
  const std::string actual = content_of(dump.path() / "layer.weight.reference.actual.npy");
  ASSERT_EQ(expected.size(), 128u + 402u);
  EXPECT_EQ(expected.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_TRUE(
      begins(expected.substr(10), "{'descr': '<u2', 'fortran_order': False, 'shape': (3, 67, ), }"))
      << "NumPy has no bf16";
  EXPECT_EQ(expected[127], '\n');
  EXPECT_EQ(expected.substr(128), tensor_named(tensors, "layer.dequantized").data);
  EXPECT_EQ(expected[128 + 140] ^ 1, actual[128 + 140]);
  EXPECT_EQ(dump.names().size(), 2u) << "a temporary file has stayed";
}

TEST_F(VerifyProgram, ReportsAWrongCodeOfTheQuantizer) {
  auto tensors = valid_tensors({.dequantized = false, .source = true});
  tensor_named(tensors, "layer.weight").data[50] ^= 0x20;
  const Finished finished = verify(file(tensors));
  EXPECT_EQ(finished.status, 1);
  EXPECT_TRUE(
      has_match(finished.out, "  quantizer: mismatch: 1 of 201 codes .*1 unexplained; 0 scales"));
}

/// Otherwise a newline forges a line of the summary, and an escape sequence rewrites the screen.
TEST_F(VerifyProgram, NamesOfAFileAreEscapedOnTheTerminal) {
  auto tensors = valid_tensors();
  for (auto& tensor : tensors) {
    tensor.name.replace(0, 5, "l\\u000aer\\u001b[2J\u202e");  // as JSON spells it
  }
  const auto path = folder_.write("a\n  reference  bit_exact 9", safetensors_bytes(tensors));
  const Finished finished = verify(fmt::format("'{}'", path.string()));
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_TRUE(begins(finished.out, folder_.path().string() + "/a\\x0a  reference  bit_exact 9: "));
  EXPECT_TRUE(contains(finished.out, "\nl\\x0aer\\x1b[2J\\u202e.weight: [3, 67] bf16"));
  const auto raw = folder_.write("b\n\x1b", "");
  EXPECT_TRUE(contains(verify(fmt::format("'{}'", raw.string())).err, "safetensors"));
}

TEST_F(VerifyProgram, VerifiesAllTensorsOfAFolder) {
  auto tensors = valid_tensors({.name = "a"});
  for (const char* name : {"b", "c"}) {
    const auto more = valid_tensors({.name = name, .dequantized = false, .source = *name == 'b'});
    tensors.insert(tensors.end(), more.begin(), more.end());
  }
  for (BuilderTensor tensor :
       valid_tensors({.name = "fp4", .nested = true, .dequantized = false})) {
    if (tensor.name.ends_with("__nf4")) tensor.name.replace(tensor.name.size() - 3, 3, "fp4");
    tensors.push_back(tensor);
  }
  tensors.push_back({"int8.weight", "I8", {1}, "x"});
  tensors.push_back({"int8.SCB", "F32", {1}, "abcd"});
  tensors.push_back({"int8.weight_format", "U8", {}, "r"});
  tensors.push_back({"head.weight", "BF16", {1}, "ab"});
  tensors.push_back({"head.SCB", "F32", {1}, "abcd"});
  const auto files = write_shards(folder_, tensors, 150);
  const std::string folder = folder_.path().string();
  std::string all;
  for (const auto& file : files) all += file.string() + " ";
  for (const auto& [given, called] : std::map<std::string, std::string>{
           {folder, fmt::format("{}: 3 quantized tensors in {} files\n", folder, files.size())},
           {folder + "/model.safetensors.index.json", folder},
           {all, fmt::format("{} and {} more: ", files[0].string(), files.size() - 1)}}) {
    const Finished finished = verify(given + " --brief");
    EXPECT_EQ(finished.status, 0);
    EXPECT_EQ(finished.err, "");
    EXPECT_TRUE(begins(finished.out, called));
    EXPECT_TRUE(
        ends(finished.out,
             "summary, in tensors:\n"
             "  reference  bit_exact 1  not_verified 2 (the file holds no .dequantized to compare "
             "with)\n"
             "  quantizer  bit_exact 1\n"
             "checked: 2 of 7 tensors: 1 with stored outputs, 1 with what was quantized\n"
             "not checked: 1 tensor of NF4, dequantized by the reference with nothing to compare "
             "with, which proves nothing\n"
             "not checked: 1 tensor of FP4, 1 of LLM.int8(), 1 of BF16, 1 of F32\n"));
  }
}

/// Otherwise "checked: 0 of 21 tensors" would look like a proof.
TEST_F(VerifyProgram, WithoutStoredOutputsNothingIsProven) {
  const std::string unproved = file(valid_tensors({.dequantized = false}));
  const Finished finished = verify(unproved);
  EXPECT_EQ(finished.status, 3);
  EXPECT_TRUE(begins(finished.out, "nothing could be proved here: "));
  EXPECT_TRUE(contains(finished.out, "checked: 0 of 1 tensor\n"));
  const Finished plan = verify(unproved + " --dry-run");
  EXPECT_EQ(plan.status, 0);
  EXPECT_TRUE(begins(plan.out, "nothing could be proved here: "));
}

/// A head that was quantized from fp32 does not affect the other weights.
TEST_F(VerifyProgram, WeightsWithFp32OutputsAreOnlyCounted) {
  auto tensors = valid_tensors({.name = "a"});
  for (BuilderTensor tensor : valid_tensors({.name = "head"})) {
    if (tensor.name.ends_with("__nf4")) {
      tensor.data.replace(tensor.data.find("bfloat16"), 8, "float32");
      tensor.shape = {static_cast<std::int64_t>(tensor.data.size())};
    }
    if (tensor.name == "head.dequantized") {
      tensor.dtype = "F32";
      tensor.data += tensor.data;
    }
    tensors.push_back(tensor);
  }
  const Finished finished = verify(file(tensors));
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_TRUE(ends(finished.out,
                   "checked: 1 of 2 tensors: 1 with stored outputs\n"
                   "not checked: 1 tensor of NF4 with fp32 outputs\n"));
}

TEST_F(VerifyProgram, APathMayContainAnyCharacters) {
  for (const std::string name : {"[a,b]", "-x", "a;#:$x\"y %s{} größe"}) {
    folder_.write(name, safetensors_bytes(valid_tensors()));
    const Finished finished = verify(fmt::format("--threads 1 -- '{}'", name));
    EXPECT_EQ(finished.status, 0) << finished.err;
  }
}

TEST_F(VerifyProgram, RefusesWrongUsageInOneLine) {
  expect_refusal(verify_program, "/nonexistent/a");
  const OwnFolder folder;
  expect_refusal(verify_program, folder.write("config.json", "{}").string());
  for (const char* redirection : {">/dev/full", ">&-"}) {
    expect_refusal(verify_program, std::string(GOLDEN_FILE " ") + redirection);
  }
  for (const char* arguments :
       {"", "a --colour", "a --dump", "a --threads 0", "a --threads 4097", "a --threads x"}) {
    expect_refusal_by_cli11(verify_program, arguments);
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
  const Finished finished = verify(file(two_mismatches("a", "b")) + " --dump /dev/null");
  EXPECT_EQ(finished.status, 1);
  EXPECT_TRUE(contains(finished.err, "reference"));
  EXPECT_TRUE(contains(finished.out, "  reference  mismatch 2\n"));
}

/// Names that a file system cannot store, or that are equal once they are escaped.
TEST_F(VerifyProgram, NoTwoTensorsShareADump) {
  const std::string name(300, 'n');
  for (const auto& [a, b] :
       std::map<std::string, std::string>{{"a/b", "a_b"}, {name + "1", name + "2"}}) {
    const OwnFolder dump;
    EXPECT_EQ(verify(file(two_mismatches(a, b)) + " --dump " + dump.path().string()).err, "");
    EXPECT_EQ(dump.names().size(), 4u);
  }
}

}  // namespace
}  // namespace reprolab::reference
