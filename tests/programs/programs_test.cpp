// The measuring programs without a GPU: bench's listing and selection; in all of them: plans,
// descriptions and errors.
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
    for (const std::string arguments : {"--instrument clock", "--limit-s 0", "--colour", "stray",
                                        "--kernel", "--pass ../x", "--clocks fast"}) {
      expect_refusal_by_cli11(path, arguments);
    }
    if (name != "bench") expect_refusal_by_cli11(path, "--instrument counters");
  }
}

TEST_F(MeasuringPrograms, RefuseMissingKernelsPeersAndModels) {
  const auto& [bench, latency, puzzle, replay] = programs;
  for (const Measuring& program : {bench, puzzle, replay}) {
    for (const char* also : {"", " --dry-run"}) {
      expect_refusal(program.path, fmt::format("--kernel lut{}", also), "shared_lut");
    }
    expect_refused(program, "--peer /nonexistent/a.so");
  }
  expect_refused(latency, "--kernel global");
  for (const Measuring& program : {bench, replay}) {
    expect_refused(program, "--models qwen3-32b,gpt");
  }
}

TEST_F(MeasuringPrograms, WithoutADeviceEndInOneLineAndWriteNoFile) {
  for (const auto& [name, path, some] : programs) {
    for (const char* more : {"", " --instrument none", " --clocks 1410"}) {
      EXPECT_TRUE(
          contains(refusal(path, some + more + " --output a/results.json"), ": no device: "));
    }
  }
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

class BenchProgram : public Programs {
 protected:
  void expect_refused(const std::string& arguments) const { expect_refusal(BENCH, arguments); }
  std::string plan(const std::string& arguments) const {
    return output_of(BENCH, "--dry-run " + arguments);
  }
};

/// The lines of a table, under its heading: those with a size.
std::vector<std::string> problems_in(const std::string& plan) {
  std::vector<std::string> problems;
  std::istringstream lines(plan);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" GiB ") != line.npos) problems.push_back(line.substr(0, line.find(' ')));
  }
  return problems;
}

TEST_F(BenchProgram, ListsEveryKernelAndNoTestsKernel) {
  const std::string list = output_of(BENCH, "--list");
  EXPECT_FALSE(contains(list, "test_"));
  for (const std::string& family : all_families()) {
    EXPECT_FALSE(kernel_names(family).empty()) << family;
    for (const auto& name : kernel_names(family)) {
      EXPECT_TRUE(has_match(
          list, fmt::format("\n  {0} +[^\n]* kernels/{1}/[a-z0-9_]+\\.[a-z]+\n", name, family)));
    }
  }
}

struct Selected {
  std::string arguments;
  std::vector<std::string> problems{};
};

TEST_F(BenchProgram, SelectsProblemsInOrder) {
  const std::string nf4 = "/fp16/b64";
  const std::vector<Selected> selections = {
      {"--family nf4 --models qwen3-32b",
       {"8192x5120" + nf4, "1024x5120" + nf4, "5120x8192" + nf4, "25600x5120" + nf4,
        "5120x25600" + nf4}},
      {"--family 'nf*' --problem '*x5120/*' --models qwen3-32b --kernel shared_lut",
       {"8192x5120" + nf4, "1024x5120" + nf4, "25600x5120" + nf4}},
      {"--family transpose --matrix 4096x4100 --matrix 1x7 --padding 4", {"4096x4100+4", "1x7+4"}},
      {"--matrix 4096x4100", {"4096x4100"}},
      {"--shape 64x64 --matrix 64x65", {"64x64" + nf4, "64x65"}},
      {"--shape 64x64 --matrix 64x65 --kernel tiled", {"64x65"}},
      {"--shape 64x64 --warm --problem '*/warm'", {"64x64" + nf4 + "/warm"}},
      {"--matrix 32768x32768 --data random,constant --halve-to-fit",
       {"32768x32768", "32768x32768/constant"}},
      {"--shape 64x1024 --data normal,sorted,uniform,equal",
       {"64x1024" + nf4, "64x1024" + nf4 + "/sorted", "64x1024" + nf4 + "/uniform",
        "64x1024" + nf4 + "/equal"}},
      {"--family nf4_product --shape 64x1024 --shape 32x96 --rows 1,7 --bias --nested "
       "--output-type bf16 --block-size 32 --data normal,one_hot",
       {"1x64x1024/bf16/b32-nested/bias", "1x64x1024/bf16/b32-nested/bias/one_hot",
        "7x64x1024/bf16/b32-nested/bias", "7x64x1024/bf16/b32-nested/bias/one_hot",
        "1x32x96/bf16/b32-nested/bias", "1x32x96/bf16/b32-nested/bias/one_hot",
        "7x32x96/bf16/b32-nested/bias", "7x32x96/bf16/b32-nested/bias/one_hot"}},
      {"--rows 3 --models qwen3-32b --problem '*x5120/*'",
       {"3x8192x5120" + nf4, "3x1024x5120" + nf4, "3x25600x5120" + nf4}},
  };
  for (const auto& [arguments, problems] : selections) {
    EXPECT_EQ(problems_in(plan(arguments)), problems) << arguments;
  }
}

TEST_F(BenchProgram, RefusesBadValuesInOneLine) {
  for (const char* arguments :
       {"--metrics warp_instructions", "--warm --instrument counters",
        "--instrument counters --metrics warps", "--shape 4x4 --shape 4x",
        "--shape 1048577x1048576", "--matrix 4x4 --matrix 4x", "--matrix 1048577x1048576",
        "--matrix 2147483648x1", "--matrix 1x2147483648", "--block-size 64,0", "--block-size 64,16",
        "--block-size 64,48", "--block-size 64,8192", "--kernell=x", "--list stray",
        "--benchmark_colour=blue", "--shape 64x64 --benchmark_repetitions=1",
        "--shape 64x64 --benchmark_list_tests"}) {
    expect_refused(arguments);
  }
}

TEST_F(BenchProgram, RefusesBadSelectionsInOneLine) {
  for (const char* also : {"", " --list", " --dry-run"}) {
    expect_refused(fmt::format("--family transposed{}", also));
    expect_refused(fmt::format("--shape 4x4 --matrix 4x7 --problem 5x5{}", also));
  }
  expect_refusal(BENCH, "--family transpose --kernel shared_lut", "tma_naive");
  for (const char* arguments :
       {"--data zeros", "--models qwen3-32b,qwen3-32b", "--shape 4x4 --shape 4x4"}) {
    expect_refused(arguments);
  }
}

/// If two families add an option, CLI11 gives its value only to the first.
TEST_F(BenchProgram, HasEveryOptionOnce) {
  std::map<std::string, int> options;
  std::istringstream help(output_of(BENCH, "--help"));
  for (std::string line; std::getline(help, line);) {
    std::smatch option;
    if (std::regex_search(line, option, std::regex("^ +(-.,)?(--[a-z-]+)"))) ++options[option[2]];
  }
  EXPECT_TRUE(options.contains("--shape") && options.contains("--matrix"));
  for (const auto& [name, count] : options) EXPECT_EQ(count, 1) << name;
}

}  // namespace
}  // namespace reprolab
