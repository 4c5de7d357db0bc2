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
    for (const std::string arguments : {"--instrument clock", "--limit-s nan", "--colour", "stray",
                                        "--kernel", "--pass ../x", "--clocks fast"}) {
      expect_refusal_by_cli11(path, arguments);
    }
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
    expect_refused(program, "--block-size 48");
  }
  expect_refused(replay, "--block-size 64,128");
  expect_refused(replay, "--output-type fp16,bf16,fp16");
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

}  // namespace
}  // namespace reprolab
