#include "experiments/harness/selection.hpp"

#include <gtest/gtest.h>

#include "experiments/harness/errors.hpp"
#include "tests/message_of.hpp"

namespace reprolab {
namespace {

std::vector<VariantInfo> kernels() {
  std::vector<VariantInfo> all;
  for (const char* name : {"branch_tree", "shared_lut", "shared_lut_tile512"}) {
    all.emplace_back().name = name;
  }
  return all;
}

std::vector<std::string> selected(const std::string& pattern) {
  std::vector<std::string> names;
  for (const auto& kernel : select_kernels(pattern, kernels())) names.push_back(kernel.name);
  return names;
}

TEST(SelectKernels, MatchesWholeNamesAndTakesAllForAnEmptyPattern) {
  EXPECT_EQ(selected(""),
            (std::vector<std::string>{"branch_tree", "shared_lut", "shared_lut_tile512"}));
  EXPECT_EQ(selected("shared_lut"), std::vector<std::string>{"shared_lut"});
  EXPECT_EQ(selected("^shared_lut$"), std::vector<std::string>{"shared_lut"});
  EXPECT_EQ(selected(".*lut.*"), (std::vector<std::string>{"shared_lut", "shared_lut_tile512"}));
  EXPECT_EQ(selected("shared_lut|branch_tree"),
            (std::vector<std::string>{"branch_tree", "shared_lut"}));
}

TEST(SelectKernels, SaysWhatThereIsWhereNothingIsSelected) {
  EXPECT_EQ(message_of<UsageError>([] { selected("lut"); }),
            "--kernel 'lut' selects nothing; there are: branch_tree, shared_lut, "
            "shared_lut_tile512");
  EXPECT_EQ(message_of<UsageError>([] { selected("warp"); }),
            "--kernel 'warp' selects nothing; there are: branch_tree, shared_lut, "
            "shared_lut_tile512");
}

TEST(SelectKernels, RefusesWhatIsNoRegularExpression) {
  EXPECT_EQ(message_of<UsageError>([] { selected("["); }),
            "--kernel: '[' is not a regular expression");
  EXPECT_EQ(message_of<UsageError>([] { to_regex("--family", "(a"); }),
            "--family: '(a' is not a regular expression");
}

TEST(NothingMatches, NamesWhatThereIsSortedAndOnce) {
  EXPECT_EQ(message_of<UsageError>([] {
              nothing_matches("--problem", "x", {"b", "a", "b"});
            }),
            "--problem 'x' selects nothing; there are: a, b");
}

}  // namespace
}  // namespace reprolab
