// bench without a GPU: what it lists, plans and refuses.
#include <regex>

#include "harness/result_file.hpp"
#include "tests/programs/program.hpp"
#include "tests/text.hpp"

namespace reprolab {
namespace {

class BenchProgram : public Programs {
 protected:
  void expect_refused(const std::string& arguments, const std::string& line) const {
    expect_refusal(BENCH, arguments, "bench: " + line);
  }
};

constexpr const char* remedy = "data/families.json is not what the programs say: make describe";

/// Without what is said of languages that are not built.
std::int64_t lines_of_plan(const std::string& text) {
  return lines_of(
      std::regex_replace(text, std::regex("[a-z0-9]+: [a-z]+: not built; [^\n]*\n"), ""));
}

TEST_F(BenchProgram, HelpIsNoError) {
  const Finished found = run_without_gpu(BENCH, "--help");
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(found.err, "");
  for (const char* option :
       {"--list",     "--dry-run", "--family",     "--kernel",       "--problem", "--samples",
        "--batch-us", "--seed",    "--instrument", "--experiment",   "--pass",    "--output",
        "--models",   "--shape",   "--block-size", "--output-type",  "--nested",  "--peer",
        "--matrix",   "--padding", "--data",       "--halve-to-fit", "--limit-s", "--clocks",
        "--metrics",  "--warm",    "--describe",   "--json",         "--rows",    "--bias"}) {
    EXPECT_TRUE(contains(found.out, std::string("  ") + option + " ")) << option;
  }
  EXPECT_TRUE(
      contains(found.out, "Everything that begins with --benchmark_ goes to Google Benchmark."));
}

TEST_F(BenchProgram, ListHasEveryKernelWithItsLineageAndFile) {
  const Finished found = run_without_gpu(BENCH, "--list");
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(found.err, "");
  EXPECT_TRUE(begins(found.out, "nf4\n  branch_tree "));
  EXPECT_TRUE(contains(found.out, "\n  shared_lut               the paper's kernel, section V-A "));
  EXPECT_TRUE(contains(found.out,
                       "declared deviation: line 12 of Algorithm 1 takes one scale, "
                       "absmax[blockIdx], for each tile of 512 weights\n"));
  EXPECT_FALSE(contains(found.out, "test_")) << "a test's kernel is listed";
  EXPECT_TRUE(contains(found.out, "\ntranspose\n  column_walk "));
  EXPECT_TRUE(contains(found.out,
                       "\n  tma_batched_as_published Veitner's transpose post, batched, "
                       "as in its Mojo "));
  for (const std::string& family : all_families()) {
    for (const auto& name : kernel_names(family)) {
      EXPECT_TRUE(has_match(
          found.out, fmt::format("\n  {0} +[^\n]* kernels/{1}/{0}\\.[a-z]+\n", name, family)));
    }
  }
}

/// By name, of a description: its families without kernels, or the kernels of kernels/.
using Described = std::map<std::string, nlohmann::json>;

std::pair<Described, Described> described(const nlohmann::json& description) {
  Described families, kernels;
  for (nlohmann::json family : description.at("families")) {
    for (const auto& kernel : family.at("kernels")) {
      const bool is_own = begins(kernel.at("source_file").get<std::string>(), "kernels/");
      if (is_own) kernels[kernel.at("name")] = kernel;
    }
    family.erase("kernels");
    families[family.at("name")] = family;
  }
  return {families, kernels};
}

TEST_F(BenchProgram, DataHasWhatTheProgramsDescribe) {
  const auto [families, kernels] = described(read_json(project_root() / "data/families.json"));
  std::set<std::string> all, in_cuda;
  for (const char* program : {BENCH, BENCH_CEILINGS, LATENCY, PUZZLE, REPLAY}) {
    const Finished found = run_without_gpu(program, "--describe");
    ASSERT_EQ(found.status, 0) << found.err;
    const auto [own_families, own_kernels] = described(nlohmann::json::parse(found.out));
    for (const auto& [name, family] : own_families) {
      EXPECT_EQ(family, families.at(name)) << remedy;
      all.insert(name);
    }
    for (const auto& [name, kernel] : own_kernels) {
      EXPECT_EQ(kernel, kernels.at(name)) << remedy;
      if (kernel.at("language") == "cuda") in_cuda.insert(name);
    }
  }
  EXPECT_EQ(all.size(), families.size()) << remedy;
  const auto is_in_cuda = [](const auto& named) { return named.second.at("language") == "cuda"; };
  EXPECT_EQ(std::ssize(in_cuda), std::ranges::count_if(kernels, is_in_cuda)) << remedy;
}

TEST_F(BenchProgram, DryRunOfCountersHasFewerSamplesOfOneCall) {
  const std::string row = "--dry-run --shape 64x64 --kernel shared_lut --instrument counters";
  EXPECT_TRUE(contains(run_without_gpu(BENCH, row).out, " (3 samples per row, one call each)\n"));
  EXPECT_TRUE(contains(run_without_gpu(BENCH, row + " --samples 5").out, " (5 samples per row, "));
}

TEST_F(BenchProgram, DryRunForProgramsNamesProblemsAndWhyNoneRuns) {
  const std::string row = "--dry-run --json --shape 64x64 --kernel shared_lut";
  const auto plan = nlohmann::json::parse(run_without_gpu(BENCH, row).out);
  EXPECT_NE(plan.at("why_none"), "");
  EXPECT_EQ(plan.at("problems").dump(), R"([{"name":"64x64/fp16/b64","refused":{}}])");
}

TEST_F(BenchProgram, DryRunSaysWhatWouldRunAndThatThereIsNoGpu) {
  const Finished found = run_without_gpu(
      BENCH, "--dry-run --shape 4096x4096 --shape 1x1000003 --kernel '*lut' --nested --samples 5");
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(found.err, "");
  EXPECT_TRUE(
      matches(found.out,
              "problem +kernels +device memory +host memory +about\n"
              "4096x4096/fp16/b64-nested +[0-9]+ +0\\.[0-9]+ GiB +0\\.[0-9]+ GiB "
              "+[0-9]+\\.[0-9] s\n"
              "1x1000003/fp16/b64-nested +[0-9]+ +0\\.[0-9]+ GiB +0\\.[0-9]+ GiB "
              "+[0-9]+\\.[0-9] s\n"
              "nf4: [0-9]+ kernels on 2 problems; about [0-9]+ s \\(5 samples per row, 1\\.0 "
              "ms each\\)\n"
              "none of this can run here: no device: [^\n]*\n"
              "a kernel whose turn does not end within 20 s \\(--limit-s\\) loses its "
              "rows\n"
              "clocks are observed, not locked\n"));
  expect_no_files();
}

TEST_F(BenchProgram, DryRunOfWarmProblemsNamesThemAndTakesTwoCopies) {
  const std::string row = "--dry-run --shape 28672x8192 --kernel streaming";
  // Of 0.56 GiB each, beside two expected outputs and a declared one of 0.44 GiB.
  EXPECT_TRUE(has_match(run_without_gpu(BENCH, row + " --warm").out,
                        "\n28672x8192/fp16/b64/warm +1 +2\\.43 GiB "));
  EXPECT_TRUE(has_match(run_without_gpu(BENCH, row).out, "\n28672x8192/fp16/b64 +1 +2\\.99 GiB "));
}

TEST_F(BenchProgram, DryRunPlansEveryDistinctShapeOfTheModels) {
  const Finished found = run_without_gpu(BENCH, "--dry-run --family nf4 --models qwen3-32b");
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(lines_of_plan(found.out), 1 + 5 + 4) << found.out;
  for (const char* shape : {"8192x5120", "1024x5120", "5120x8192", "25600x5120", "5120x25600"}) {
    EXPECT_TRUE(contains(found.out, std::string("\n") + shape + "/fp16/b64 ")) << shape;
  }
}

TEST_F(BenchProgram, DryRunPlansEveryCombinationOfTheFormatsOffsetsFastest) {
  const Finished found = run_without_gpu(
      BENCH,
      "--dry-run --shape 64x64 --shape 63x63 --block-size 4096,32 --output-type bf16,fp16 "
      "--offset 0,3 --nested --kernel streaming");
  EXPECT_EQ(found.status, 0) << found.err;
  std::string wanted = "problem [^\n]*\n";
  for (const char* shape : {"64x64", "63x63"}) {
    for (const char* format :
         {"bf16/b4096-nested", "fp16/b4096-nested", "bf16/b32-nested", "fp16/b32-nested"}) {
      for (const char* offset : {"", "/offset3"}) {
        wanted += fmt::format("{}/{}{} [^\n]*\n", shape, format, offset);
      }
    }
  }
  EXPECT_TRUE(has_match(found.out, wanted + "nf4: 1 kernels on 16 problems; ")) << found.out;
}

TEST_F(BenchProgram, DryRunPlansEverySizeOfTheTransposesSweep) {
  const Finished found = run_without_gpu(BENCH, "--dry-run --family transpose");
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(found.err, "");
  EXPECT_EQ(lines_of_plan(found.out), 1 + 26 + 4) << found.out;
  for (const int size : {256, 1000, 1023, 1024, 32767, 32768, 65536}) {
    EXPECT_TRUE(has_match(found.out,
                          fmt::format("\n{0}x{0} +{1} +", size, kernel_names("transpose").size())));
  }
  // Three buffer sets of two matrices, and the expected outputs of two different ones; if the host
  // can hold the matrix, also a declared output, and on the host the matrices and two outputs.
  EXPECT_TRUE(has_match(found.out, "\n32768x32768 +[0-9]+ +36\\.00 GiB +16\\.00 GiB "));
  EXPECT_TRUE(has_match(found.out, "\n65536x65536 +[0-9]+ +128\\.00 GiB +0\\.00 GiB "));
}

TEST_F(BenchProgram, DryRunSaysWhichLanguagesAreNotBuiltUnlessKernelsAreNamed) {
  const std::string both = "--dry-run --shape 64x64 --matrix 64x64";
  const Finished all = run_without_gpu(BENCH, both);
  std::string wanted;
  for (const std::string family : {"nf4", "transpose"}) {
    for (const auto& line : lines_not_built(family)) wanted += family + ": " + line + "\n";
  }
  EXPECT_TRUE(contains(all.out, "ms each)\n" + wanted + "none of this can run here: "));
  const Finished named = run_without_gpu(BENCH, both + " --kernel 'shared_lut|tiled'");
  EXPECT_FALSE(contains(named.out, "not built"));
}

TEST_F(BenchProgram, DryRunTakesTheMatricesAskedFor) {
  const Finished found = run_without_gpu(
      BENCH, "--dry-run --family transpose --matrix 4096x4100 --matrix 1x7 --padding 4");
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(lines_of_plan(found.out), 1 + 2 + 4) << found.out;
  EXPECT_TRUE(contains(found.out, "\n4096x4100+4 "));
  EXPECT_TRUE(contains(found.out, "\n1x7+4 "));
  const Finished padded = run_without_gpu(BENCH, "--dry-run --family transpose --padding 12");
  EXPECT_EQ(lines_of_plan(padded.out), 1 + 26 + 4) << padded.out;
  EXPECT_TRUE(contains(padded.out, "\n65536x65536+12 "));
}

TEST_F(BenchProgram, DryRunPlansBothFamilies) {
  const Finished found = run_without_gpu(BENCH, "--dry-run --shape 64x64 --matrix 64x65");
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(lines_of_plan(found.out), 1 + 2 + 4) << found.out;
  EXPECT_TRUE(contains(found.out, "\n64x64/fp16/b64 "));
  EXPECT_TRUE(contains(found.out, "\n64x65 "));
  EXPECT_TRUE(has_match(found.out,
                        "\nnf4: [0-9]+ kernels on 1 problems; transpose: [0-9]+ kernels "
                        "on 1 problems; about "));
}

/// The post's matrix, with the experiment's arguments.
TEST_F(BenchProgram, DryRunPlansAMatrixOnBothKindsOfData) {
  const Finished found = run_without_gpu(
      BENCH, "--dry-run --matrix 32768x32768 --data random,constant --halve-to-fit");
  EXPECT_EQ(found.status, 0);
  EXPECT_TRUE(has_match(found.out, "\n32768x32768 +[0-9]+ +36\\.00 GiB "));
  EXPECT_TRUE(has_match(found.out, "\n32768x32768/constant +[0-9]+ +16\\.00 GiB "))
      << "verified in one copy";
}

/// The experiment's arguments.
TEST_F(BenchProgram, DryRunPlansAShapeOnEveryKindOfCodes) {
  const Finished found =
      run_without_gpu(BENCH, "--dry-run --shape 64x1024 --data normal,sorted,uniform,equal");
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(lines_of_plan(found.out), 1 + 4 + 4) << found.out;
  for (const char* name : {"", "/sorted", "/uniform", "/equal"}) {
    EXPECT_TRUE(contains(found.out, fmt::format("\n64x1024/fp16/b64{} ", name))) << name;
  }
}

TEST_F(BenchProgram, DryRunPlansProductsByRowsShapeFormatAndData) {
  const Finished found = run_without_gpu(
      BENCH,
      "--dry-run --family nf4_product --shape 64x1024 --shape 32x96 --rows 1,7 --bias --nested "
      "--output-type bf16 --block-size 32,128 --data normal,one_hot");
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_EQ(lines_of_plan(found.out), 1 + 16 + 4) << found.out;
  for (const char* name :
       {"1x64x1024/bf16/b32-nested/bias ", "7x32x96/bf16/b128-nested/bias/one_hot "}) {
    EXPECT_TRUE(contains(found.out, std::string("\n") + name)) << name;
  }
  // Codes, scales, activations, 16-bit weights and outputs thrice, and workspaces.
  const Finished layer = run_without_gpu(
      BENCH, "--dry-run --family nf4_product --shape 28672x8192 --rows 8 --kernel streaming_*");
  EXPECT_TRUE(has_match(layer.out, "\n8x28672x8192/fp16/b64 +1 +[1-9]\\.[0-9]+ GiB ")) << layer.out;
}

TEST_F(BenchProgram, RowsAskForProductsAlone) {
  const Finished found = run_without_gpu(BENCH, "--dry-run --rows 3 --models qwen3-32b");
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_EQ(lines_of_plan(found.out), 1 + 5 + 4) << found.out;
  EXPECT_FALSE(contains(found.out, "nf4: ")) << found.out;
}

TEST_F(BenchProgram, RefusesBadRowsInOneLine) {
  expect_refused("--rows 0", "--rows: Value 0 not in range [1 - 1048576]");
  expect_refused("--rows 1,1 --family nf4_product --shape 64x64",
                 "problem '1x64x64/fp16/b64' is selected twice");
  expect_refused("--family nf4_product --data sorted",
                 "--data 'sorted' selects nothing; there are: normal, one_hot, sparse");
}

TEST_F(BenchProgram, LeavesOutTheFamiliesWithoutTheDataAskedFor) {
  const Finished found = run_without_gpu(BENCH, "--dry-run --data constant");
  EXPECT_EQ(found.status, 0);
  EXPECT_EQ(lines_of_plan(found.out), 1 + 26 + 4) << found.out;
  EXPECT_FALSE(contains(found.out, "nf4: ")) << found.out;
}

TEST_F(BenchProgram, RefusesBadMatricesInOneLine) {
  for (const char* matrix : {"4096", "4x", "x4", "4x4x4", "0x4", "4x0", "-4x4", "4.5x4", "4X4"}) {
    expect_refused(
        fmt::format("--matrix='{}'", matrix),
        fmt::format("--matrix: expected ROWSxCOLUMNS, such as 4096x4096; got '{}'", matrix));
  }
  expect_refused("--matrix 64x64 --matrix 4x",
                 "--matrix: expected ROWSxCOLUMNS, such as 4096x4096; got '4x'");
  expect_refused("--matrix 1048577x1048576",
                 "--matrix: 1048577x1048576 has more than 2^40 elements");
  for (const char* matrix : {"2147483648x1", "1x2147483648"}) {
    expect_refused(
        fmt::format("--matrix {}", matrix),
        fmt::format("--matrix: {} has 2^31 rows or columns, or more; give fewer of each", matrix));
  }
  EXPECT_EQ(run_without_gpu(BENCH, "--dry-run --matrix 2147483647x1").status, 0);
}

TEST_F(BenchProgram, RefusesBadValuesInOneLine) {
  expect_refused("--metrics warp_instructions", "--metrics: needs --instrument counters");
  expect_refused("--warm --instrument counters",
                 "--warm: counters are of one call, before which the cache is as CUPTI leaves it; "
                 "give one of the two");
  expect_refused("--instrument counters --metrics warps",
                 "--metrics: 'warps' is neither a column of data/counters.json nor the name of a "
                 "CUPTI metric, such as smsp__inst_executed.sum; `make metrics` lists both");
  expect_refused(
      "--instrument counters --metrics gpu__time_duration.sum",
      "--metrics: gpu__time_duration.sum is a time, and a kernel that is replayed for its "
      "counters is not timed; --instrument events and activity measure times");
  expect_refused("--limit-s nan", "--limit-s: nan is not a number; see bench --help");
  expect_refused("--batch-us=-nan", "--batch-us: -nan is not a number; see bench --help");
  expect_refused("--shape 4x", "--shape: expected ROWSxCOLUMNS, such as 4096x4096; got '4x'");
  for (const char* shape : {"4096", "x4", "4x4x4", "0x4", "4x0", "-4x4", "4 x4", "4.5x4", "4X4",
                            "99999999999999999999x1"}) {
    expect_refused(
        fmt::format("--shape='{}'", shape),
        fmt::format("--shape: expected ROWSxCOLUMNS, such as 4096x4096; got '{}'", shape));
  }
  expect_refused("--shape 99999999999x99999999999",
                 "--shape: 99999999999x99999999999 has more than 2^40 elements");
  for (const int block_size : {0, 1, 16, 48, 65, 8192}) {
    expect_refused(
        fmt::format("--block-size {}", block_size),
        fmt::format("--block-size: expected a power of two from 32 to 4096; got {}", block_size));
  }
  expect_refused("--block-size 32,64,48",
                 "--block-size: expected a power of two from 32 to 4096; got 48");
}

TEST_F(BenchProgram, RefusesBadSelectionsInOneLine) {
  for (const char* also : {"", " --list", " --dry-run"}) {
    expect_refused(fmt::format("--family transposed{}", also),
                   "--family 'transposed' selects nothing; there are: nf4, transpose");
    expect_refused(fmt::format("--shape 4x4 --problem 5x5{}", also),
                   "--problem '5x5' selects nothing; there are: 4x4/fp16/b64");
    expect_refused(fmt::format("--pass ../x{}", also),
                   "--pass: give a name of at most 64 letters, digits, '_', '-' and '.', the first "
                   "of them no '.'; see bench --help");
  }
  expect_refused("--data zeros",
                 "--data 'zeros' selects nothing; there are: constant, equal, normal, random, "
                 "sorted, uniform");
  expect_refused("--shape 4x4 --data normal,constant",
                 "--data 'constant' selects nothing; there are: equal, normal, sorted, uniform");
  expect_refused("--shape 4x4 --data equal,equal",
                 "problem '4x4/fp16/b64/equal' is selected twice");
  expect_refused("--family transpose --kernel shared_lut",
                 no_such_kernel("shared_lut", {"transpose"}));
  expect_refused("--kernel nothing", no_such_kernel("nothing", all_families()));
  expect_refused("--kernel lut", no_such_kernel("lut", all_families()));
  expect_refused("--shape 4x4 --matrix 4x7 --problem 5x5",
                 "--problem '5x5' selects nothing; there are: 4x4/fp16/b64, 4x7");
  expect_refused("--matrix 4x4 --matrix 4x4", "problem '4x4' is selected twice");
  expect_refused("--shape 4x4 --shape 4x4", "problem '4x4/fp16/b64' is selected twice");
  expect_refused("--shape 4x4 --block-size 64,64", "problem '4x4/fp16/b64' is selected twice");
  expect_refused("--shape 4x4 --output-type bf16,bf16", "problem '4x4/bf16/b64' is selected twice");
  expect_refused("--shape 4x4 --offset 1,0,1", "problem '4x4/fp16/b64/offset1' is selected twice");
  expect_refused("--models qwen3-32b,qwen3-32b", "model 'qwen3-32b' is named twice");
  expect_refused("--models qwen3-32b,gpt",
                 "no model 'gpt'; known: gemma-2-27b, gemma-3-27b, qwen3-32b, llama-3.3-70b, "
                 "llama-3.1-8b, qwen3-8b");
  expect_refused("--peer /nonexistent/a.so",
                 "peer /nonexistent/a.so: no such file; give the path of "
                 "libbitsandbytes_cuda*.so");
}

TEST_F(BenchProgram, RefusesOptionsThatNobodyKnows) {
  for (const char* word : {"--colour", "stray", "--kernell=x", "--bench_filter=x"}) {
    const std::string line = fmt::format("unknown option '{}'; see bench --help", word);
    expect_refused(word, line);
    // A typing error must be reported even if another option ends the program early.
    expect_refused(fmt::format("--list {}", word), line);
    expect_refused(fmt::format("--dry-run {}", word), line);
  }
  expect_refused("--benchmark_colour=blue",
                 "unknown option '--benchmark_colour=blue'; see bench --help");
}

TEST_F(BenchProgram, RefusesFlagsOfGoogleBenchmarkThatItsOwnOrderOverrules) {
  for (const std::string flag : {"--benchmark_enable_random_interleaving",
                                 "--benchmark_repetitions", "--benchmark_format"}) {
    for (const char* value : {"", "=1", "=json"}) {
      expect_refused("--shape 64x64 " + flag + value,
                     flag +
                         ": not supported; samples are always interleaved (--seed, --samples), and "
                         "--benchmark_out writes files");
    }
  }
}

/// The middle of these texts comes from CLI11 and differs between its versions.
TEST_F(BenchProgram, RefusesWhatTheParserRefusesInOneLine) {
  for (const std::string arguments :
       {"--samples 0", "--samples x", "--batch-us 0", "--instrument counter", "--limit-s 0",
        "--data", "--output-type fp32", "--output-type bf16,fp32", "--seed -1", "--seed 2147483648",
        "--kernel", "--block-size x", "--block-size 64,x", "--offset 0,256", "--offset 1,-1",
        "--padding -1", "--padding 1048577", "--matrix"}) {
    const Finished found = run_without_gpu(BENCH, arguments);
    EXPECT_EQ(found.status, 2) << arguments;
    EXPECT_EQ(found.out, "") << arguments;
    EXPECT_TRUE(matches(found.err, "bench: [^\n]+; see bench --help\n")) << arguments;
    EXPECT_TRUE(contains(found.err, arguments.substr(0, arguments.find(' ')))) << arguments;
  }
}

TEST_F(BenchProgram, WithoutADeviceIsOneLineAndNoFile) {
  for (const char* instrument : {"events", "none"}) {
    const Finished found = run_without_gpu(
        BENCH, fmt::format("--shape 64x64 --instrument {} --output a/results.json", instrument));
    EXPECT_EQ(found.status, 2);
    EXPECT_EQ(found.out, "");
    EXPECT_TRUE(begins(found.err, "bench: no device: "));
    EXPECT_TRUE(ends(found.err, " A measurement needs an NVIDIA GPU; --dry-run needs none.\n"));
    EXPECT_EQ(lines_of(found.err), 1);
    expect_no_files();
  }
}

}  // namespace
}  // namespace reprolab
