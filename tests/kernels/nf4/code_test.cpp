// The digest of every kernel's code, as rows have it.
#include "harness/code.hpp"

#include <fmt/core.h>

#include <map>
#include <set>

#include "profiling/machine_code.hpp"
#include "tests/kernels/nf4/testing.hpp"

namespace reprolab::nf4 {
namespace {

TEST(KernelCode, IsOfTheKernelsOwnFileAndOfThoseThatItLaunches) {
  // Some architecture that this program was built for.
  const auto built = profiling::machine_code_in("/proc/self/exe");
  ASSERT_FALSE(built.empty());
  const int capability = built.front().capability;
  set_code_target(fmt::format("{}.{}", capability / 10, capability % 10));
  std::map<std::string, Code> codes;
  std::set<std::string> digests;
  for (const auto& kernel : registered_kernels()) {
    const auto code = code_of(kernel);
    ASSERT_TRUE(code) << kernel.name;
    EXPECT_EQ(code->target, fmt::format("sm_{}", capability)) << kernel.name;
    digests.insert(code->sha256.at(kernel.source_file));
    codes[kernel.name] = *code;
  }
  EXPECT_EQ(digests.size(), codes.size()) << "no two kernels are the same";
  const std::string streaming = "kernels/nf4/streaming.cu";
  EXPECT_EQ(codes.at("two_launches").sha256.at(streaming),
            codes.at("streaming").sha256.at(streaming));
  EXPECT_EQ(codes.at("two_launches").sha256.size(), 2u);
  set_code_target("1.0");
  EXPECT_FALSE(code_of(registered_kernels().front())) << "only the driver compiles it";
}

TEST(KernelCode, OfASourceThatOnlyCallsALibraryIsThatOfTheLibrary) {
  set_code_target("9.0");
  VariantInfo peer;
  peer.code_files = [](int) -> std::vector<std::string> { return {"calls.cu", "/proc/self/exe"}; };
  EXPECT_EQ(code_of(peer)->sha256.size(), 1u);
  peer.code_files = [](int) -> std::vector<std::string> { return {"calls.cu"}; };
  EXPECT_FALSE(code_of(peer));
}

}  // namespace
}  // namespace reprolab::nf4
