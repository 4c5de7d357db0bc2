#include "harness/selection.hpp"

#include <gtest/gtest.h>

#include "harness/errors.hpp"
#include "tests/refusal.hpp"

namespace reprolab {
namespace {

using Names = std::vector<std::string>;

TEST(Selects, IsAShellsCase) {
  for (const char* pattern :
       {"",      "abcabd", "*",       "**",     "a*",     "*d",       "a*d",
        "*b*",   "*abd",   "abc*abd", "a?c??d", "??????", "x|abcabd", "abcabd|",
        "a*b*d", "|*",     "*?",      "!abc",   "!x|y*",  "!",        "!!abcabd"}) {
    EXPECT_TRUE(selects(pattern, "abcabd")) << pattern;
  }
  for (const char* pattern :
       {"abc", "abcabdx", "bcabd", "?", "a?", "*c", "b*", "|", "x|y", "a*x", "abcabd??*", "ABCABD",
        "abc.*", "[a]*", "^abcabd$", "!abcabd", "!x|a*", "!*"}) {
    EXPECT_FALSE(selects(pattern, "abcabd")) << pattern;
  }
  EXPECT_TRUE(selects("a*b", "a*b"));
  EXPECT_TRUE(selects("|", "")) << "an alternative may be empty";
}

/// A regular expression needed minutes or overflowed the stack.
TEST(Selects, EndsForEveryPattern) {
  const std::string name(64, 'a');
  std::string stars;
  for (int i = 0; i < 20000; ++i) stars += "*a";
  EXPECT_FALSE(selects(stars, name));
  EXPECT_FALSE(selects(std::string(20000, '('), name));
  EXPECT_FALSE(selects(std::string(20000, '|') + "b", name));
  EXPECT_TRUE(selects(std::string(100000, '*'), name));
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
  EXPECT_TRUE(contains(testing::internal::GetCapturedStderr(), "shared_lut"));
}

TEST(DidYouMean, NamesTheNearestIfOneIsNear) {
  const Names known{"branch_tree", "shared_lut", "shared_lut_tile512"};
  EXPECT_EQ(did_you_mean("shard_lut", known), " (did you mean shared_lut?)");
  EXPECT_EQ(did_you_mean("branch_treee", known), " (did you mean branch_tree?)");
  EXPECT_EQ(did_you_mean("sharedlut_tile521", known), " (did you mean shared_lut_tile512?)");
  EXPECT_EQ(did_you_mean("shaved_cup", known), " (did you mean shared_lut?)") << "3 of 10 letters";
  for (const std::string& name :
       Names{"lut", "", "transpose", "spaved_cup", std::string(100'000, 's')}) {
    EXPECT_EQ(did_you_mean(name, known), "") << name.size();
  }
  EXPECT_EQ(did_you_mean("x", {}), "");
}

TEST(ParseExtent, ReadsRowsAndColumnsOfUpTo2To40Elements) {
  const Extent extent = parse_extent("--matrix", "4096x4100");
  EXPECT_EQ(extent.rows, 4096);
  EXPECT_EQ(extent.columns, 4100);
  EXPECT_EQ(parse_extent("--matrix", "007x1").rows, 7);
  for (const std::string text : {"1048576x1048576", "1x1099511627776", "3x366503875925"}) {
    EXPECT_NO_THROW(parse_extent("--matrix", text)) << text;
  }
  for (const std::string text : {"1048576x1048577",
                                 "1048577x1048576",
                                 "1x1099511627777",
                                 "1099511627777x1",
                                 "9223372036854775807x9223372036854775807",
                                 "3x366503875926",
                                 "",
                                 "x",
                                 "4096",
                                 "4x",
                                 "x4",
                                 "4x4x4",
                                 "4x4 ",
                                 " 4x4",
                                 "4 x4",
                                 "0x4",
                                 "4x0",
                                 "-4x4",
                                 "4x-4",
                                 "+4x4",
                                 "4.5x4",
                                 "4X4",
                                 "0x10x4",
                                 "99999999999999999999x1",
                                 "1x99999999999999999999"}) {
    expect_refused<UsageError>([&] { parse_extent("--matrix", text); }, "matrix");
  }
}

}  // namespace
}  // namespace reprolab
