// Common behaviour of the measuring programs without a GPU: plans, descriptions and errors.
#include "tests/programs/program.hpp"

namespace reprolab {
namespace {

struct Measuring {
  std::string name, path;
  std::string some;  ///< Arguments that select a small part.
};

const Measuring programs[] = {
    {"bench", BENCH, "--shape 64x64"},
    {"latency", LATENCY, "--kernel shared_load"},
    {"puzzle", PUZZLE, "--kernel shared_lut"},
    {"replay", REPLAY, "--models llama-3.1-8b"},
};

class MeasuringPrograms : public Programs {
 protected:
  void expect_refused(const Measuring& program, const std::string& arguments) const {
    for (const char* also : {"", " --dry-run"}) expect_refusal(program.path, arguments + also);
  }
};

TEST_F(MeasuringPrograms, RefuseInvalidOptionsInOneLine) {
  for (const auto& [name, path, some] : programs) {
    for (const std::string arguments :
         {"--instrument clock", "--limit-s 0", "--limit-s nan", "--seed -1", "--seed 2147483648",
          "--colour", "stray", "--kernel", "--dry-run --colour", "--pass ../x", "--clocks fast",
          "--clocks 0", "--clocks 1410.5"}) {
      expect_refusal_by_cli11(path, arguments);
    }
    expect_refusal_by_cli11(path, name == "replay" ? "--passes 0" : "--samples 0");
  }
  for (const std::string arguments :
       {"--batch-us 0", "--batch-us=-nan", "--data", "--output-type fp32",
        "--output-type bf16,fp32", "--block-size x", "--block-size 64,x", "--offset 0,256",
        "--offset 1,-1", "--padding -1", "--padding 1048577", "--matrix"}) {
    expect_refusal_by_cli11(BENCH, arguments);
  }
  expect_refusal_by_cli11(REPLAY, "--batches 0");
  expect_refusal_by_cli11(PUZZLE, "--iterations 0");
}

TEST_F(MeasuringPrograms, RefuseMissingKernelsPeersAndModels) {
  const auto& [bench, latency, puzzle, replay] = programs;
  for (const Measuring& program : {bench, puzzle, replay}) {
    const bool all = program.name == "bench";
    for (const char* also : {"", " --dry-run"}) {
      expect_no_such_kernel(program.path, fmt::format("--kernel lut{}", also),
                            all ? all_families() : std::vector<std::string>{"nf4"});
    }
    expect_refused(program, "--peer /nonexistent/a.so");
  }
  expect_refused(latency, "--kernel global");
  for (const Measuring& program : {bench, replay}) {
    expect_refused(program, "--models qwen3-32b,gpt");
    expect_refused(program, "--block-size 48");
  }
  expect_refused(replay, "--block-size 64,128");
  expect_refused(replay, "--output-type fp16,bf16,fp16");
}

TEST_F(MeasuringPrograms, RefuseInstrumentsThatCannotMeasureThem) {
  const auto& [bench, latency, puzzle, replay] = programs;
  for (const char* instrument : {"activity", "counters"}) {
    expect_refused(puzzle, fmt::format("--instrument {}", instrument));
  }
  expect_refused(replay, "--instrument events");
  expect_refused(replay, "--instrument counters");
}

TEST_F(MeasuringPrograms, WithoutADeviceEndInOneLineAndWriteNoFile) {
  for (const auto& [name, path, some] : programs) {
    for (const char* more : {"", " --instrument none", " --clocks 1410"}) {
      EXPECT_TRUE(
          contains(refusal(path, some + more + " --output a/results.json"), ": no device: "));
    }
  }
}

TEST_F(MeasuringPrograms, DryRunsNameTheClocks) {
  for (const auto& [clocks, note] : std::map<std::string, std::string>{
           {"", "clocks are observed"},
           {"--clocks observe", "clocks are observed"},
           {"--clocks 1410", "the SM clock would be locked at 1410 MHz"},
           {"--clocks max", "the SM clock would be locked at its highest"}}) {
    for (const auto& [name, path, some] : programs) {
      const std::string plan = output_of(path, some + " --dry-run " + clocks);
      EXPECT_TRUE(contains(plan, "\n" + note)) << name;
      EXPECT_TRUE(contains(plan, ": no device: ")) << name;
      EXPECT_TRUE(has_match(plan, "\n[^\n]* (20|120) s \\(--limit-s\\) ")) << name;
    }
  }
}

/// For programs whose tables no other test checks: `lines` is a regular expression.
TEST_F(MeasuringPrograms, DryRunsAreTables) {
  const auto expect_lines = [&](const char* program, const char* arguments,
                                const std::string& lines) {
    const std::string plan = output_of(program, fmt::format("--dry-run {}", arguments));
    EXPECT_TRUE(matches(plan, "([a-z]+: not built; make [a-z]+\n)*" + lines +
                                  "[^\n]*--limit-s[^\n]*\n[^\n]*\n[^\n]*\n"))
        << program;
  };
  std::string rows = "kernel +nodes +memory +about\nempty_chain +nothing +[0-9.]+ GiB +[0-9.]+ s\n";
  for (const char* row :
       {"shared_load", "shared_store", "shared_store_to_load", "constant_load", "global_l1",
        "global_l2", "global_l2_one_line", "global_dram", "global_dram_by_page"}) {
    rows += fmt::format("{} +[0-9xB]+ +[0-9.]+ GiB +[0-9.]+ s\n", row);
  }
  expect_lines(LATENCY, "--samples 7", rows + "7 samples per row; about [0-9]+ s\n");
  expect_lines(PUZZLE, "",
               "MLP +output +weights in up, gate and down +bytes moved\n"
               "2048x8192 +fp16 +50331648 +126\\.63 GB\n"
               "1024x4096 +bf16 +12582912 +31\\.66 GB\n"
               "4096x14336 +bf16 +176160768 +443\\.20 GB\n"
               "[0-9]+ kernels and 3 ceilings, three MLPs, 1000 times: 601\\.48 GB in 9000 "
               "launches, 5 samples of both ways: about [0-9]+ s, and the time to make the data\n");
  EXPECT_TRUE(contains(
      output_of(PUZZLE, "--dry-run --iterations 10 --samples 2 --kernel 'scalar_store|wide_store'"),
      "\n2 kernels and 3 ceilings, three MLPs, 10 times: 6.01 GB in 90 launches, 2 samples "));
  expect_lines(REPLAY, "",
               "model +layers +launches +weights resident +working memory +about\n"
               "gemma-2-27b +46 +322 +14\\.7 GB +[0-9.]+ GB +[0-9]+ s\n"
               "gemma-3-27b +62 +434 +14\\.4 GB +[0-9.]+ GB +[0-9]+ s\n"
               "qwen3-32b +64 +448 +17\\.6 GB +[0-9.]+ GB +[0-9]+ s\n"
               "llama-3\\.3-70b +80 +560 +38\\.5 GB +[0-9.]+ GB +[0-9]+ s\n"
               "[0-9]+ kernels, batches 2, 4, 8, 16, 32, 64, 1 warm-up and 3 measured passes each: "
               "about [0-9]+ s, and the time to make the data\n");
  expect_lines(REPLAY,
               "--models llama-3.3-70b --nested --block-size 128 --batches 1,3 --kernel "
               "shared_lut",
               "model [^\n]*\nllama-3\\.3-70b +80 +560 +34\\.8 GB [^\n]*\n"
               "1 kernels, batches 1, 3, [^\n]*\n");
}

/// Parts of a description by name: its families without kernels, or the kernels of kernels/.
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

TEST_F(MeasuringPrograms, DescribeTheContentsOfTheData) {
  const char* remedy = "data/families.json is not what the programs say: make describe";
  const auto [families, kernels] = described(read_json(project_root() / "data/families.json"));
  std::set<std::string> all, in_cuda;
  for (const char* program : {BENCH, LATENCY, PUZZLE, REPLAY}) {
    const auto [own_families, own_kernels] =
        described(nlohmann::json::parse(output_of(program, "--describe")));
    for (const auto& [name, family] : own_families) {
      ASSERT_TRUE(families.contains(name)) << name << remedy;
      EXPECT_EQ(family, families.at(name)) << remedy;
      all.insert(name);
    }
    for (const auto& [name, kernel] : own_kernels) {
      ASSERT_TRUE(kernels.contains(name)) << name << remedy;
      EXPECT_EQ(kernel, kernels.at(name)) << remedy;
      if (kernel.at("language") == "cuda") in_cuda.insert(name);
    }
  }
  EXPECT_EQ(all.size(), families.size()) << remedy;
  const auto is_in_cuda = [](const auto& named) { return named.second.at("language") == "cuda"; };
  EXPECT_EQ(std::ssize(in_cuda), std::ranges::count_if(kernels, is_in_cuda)) << remedy;
}

}  // namespace
}  // namespace reprolab
