// The digest of every kernel's code, as rows have it.
#include "harness/code.hpp"

#include <fmt/core.h>

#include <map>
#include <set>

#include "profiling/machine_code.hpp"
#include "tests/kernels/nf4/testing.hpp"

namespace reprolab::nf4 {
namespace {

/// Some architecture that this program was built for: 90.
int built_for() {
  static const auto found = profiling::machine_code_in("/proc/self/exe");
  return found.empty() ? 0 : found.front().capability;
}

std::map<std::string, Code> codes() {
  set_code_target(fmt::format("{}.{}", built_for() / 10, built_for() % 10));
  std::map<std::string, Code> found;
  for (const auto& kernel : registered_kernels()) {
    const auto code = code_of(kernel);
    EXPECT_TRUE(code) << kernel.name;
    if (code) found[kernel.name] = *code;
  }
  return found;
}

TEST(KernelCode, IsOfTheKernelsOwnFile) {
  for (const auto& [name, code] : codes()) {
    EXPECT_EQ(code.target, fmt::format("sm_{}", built_for())) << name;
    EXPECT_TRUE(code.sha256.contains("kernels/nf4/" + name + ".cu")) << name;
  }
}

TEST(KernelCode, OfAKernelThatLaunchesAnotherIsOfBoth) {
  const auto all = codes();
  const std::string file = "kernels/nf4/streaming.cu";
  EXPECT_EQ(all.at("two_launches").sha256.at(file), all.at("streaming").sha256.at(file));
  EXPECT_EQ(all.at("two_launches").sha256.size(), 2u);
}

TEST(KernelCode, TellsKernelsApart) {
  std::set<std::string> digests;
  for (const auto& [name, code] : codes()) {
    digests.insert(code.sha256.at("kernels/nf4/" + name + ".cu"));
  }
  EXPECT_EQ(digests.size(), codes().size());
}

TEST(KernelCode, IsNotKnownWhereOnlyTheDriverCompilesIt) {
  set_code_target("1.0");
  EXPECT_FALSE(code_of(registered_kernels().front()));
}

TEST(KernelCode, OfALibraryIsOfItsFile) {
  set_code_target("9.0");
  VariantInfo peer;
  peer.code_files = [](int) -> std::vector<std::string> { return {"/proc/self/exe"}; };
  EXPECT_EQ(code_of(peer)->sha256.at("exe"), profiling::file_digest("/proc/self/exe"));
  peer.code_files = [](int) -> std::vector<std::string> { return {"/missing/library.so"}; };
  EXPECT_FALSE(code_of(peer));
}

}  // namespace
}  // namespace reprolab::nf4
