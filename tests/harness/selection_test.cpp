#include "harness/selection.hpp"

#include <gtest/gtest.h>

#include "harness/errors.hpp"
#include "tests/refusal.hpp"

namespace reprolab {
namespace {

using Names = std::vector<std::string>;

TEST(Selects, IsAShellsCase) {
  for (const char* pattern :
       {"",     "abcabd",  "*",      "**",     "a*",       "*d",      "a*d",  "*b*",
        "*abd", "abc*abd", "a?c??d", "??????", "x|abcabd", "abcabd|", "[a]*", "a*b*d",
        "|*",   "*?",      "!abc",   "!x|y*",  "!",        "!!abcabd"}) {
    EXPECT_TRUE(selects(pattern, "abcabd")) << pattern;
  }
  for (const char* pattern :
       {"abc", "abcabdx", "bcabd", "?", "a?", "*c", "b*", "|", "x|y", "a*x", "abcabd??*", "ABCABD",
        "abc.*", "[b]*", "^abcabd$", "!abcabd", "!x|a*", "!*"}) {
    EXPECT_FALSE(selects(pattern, "abcabd")) << pattern;
  }
  EXPECT_TRUE(selects("a*b", "a*b"));
  EXPECT_TRUE(selects("|", "")) << "an alternative may be empty";
}

TEST(SelectKernels, MatchesWholeNamesOrListsTheKernels) {
  std::vector<VariantInfo> kernels;
  for (const char* name : {"shared_lut", "shared_lut_tile512", "branch_tree", "shared_lut"}) {
    kernels.emplace_back().name = name;
  }
  const auto selected = [&](const std::string& pattern) {
    Names names;
    for (const auto& kernel : select_kernels(pattern, kernels, {"mojo: not built"})) {
      names.push_back(kernel.name);
    }
    return names;
  };
  EXPECT_EQ(selected("*512|branch_????"), (Names{"shared_lut_tile512", "branch_tree"}));
  expect_refused<UsageError>([&] { selected("lut"); }, "shared_lut_tile512");
  testing::internal::CaptureStderr();
  EXPECT_EQ(selected("shard_lut|branch_tree|*x|"), Names{"branch_tree"});
  EXPECT_EQ(selected("!tree|branch_tree"),
            (Names{"shared_lut", "shared_lut_tile512", "shared_lut"}));
  EXPECT_TRUE(contains(testing::internal::GetCapturedStderr(), "shard_lut"));
}

}  // namespace
}  // namespace reprolab
