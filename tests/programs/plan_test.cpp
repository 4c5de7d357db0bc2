// The selection of bench.
#include "programs/bench/plan.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/errors.hpp"
#include "tests/message_of.hpp"

namespace reprolab::bench {
namespace {

/// A second family.
class Toys : public Family {
 public:
  static inline std::vector<std::string> problems_named;
  static inline bool asked_for = false;

  const FamilyFacts& facts() const override {
    static const FamilyFacts of_toys{.name = "toys", .element = "toy", .types = {}};
    return of_toys;
  }
  void add_options(CLI::App&) override {}
  void configure() override {}
  bool is_asked_for() const override { return asked_for; }
  std::vector<VariantInfo> kernels() const override {
    VariantInfo variant;
    variant.name = "toy";
    return {variant};
  }
  std::vector<std::string> data() const override { return {"plain", "sorted"}; }
  std::vector<PlannedProblem> problems(const FreeMemory&,
                                       const std::vector<std::string>& data) const override {
    std::vector<PlannedProblem> planned;
    for (const auto& name : problems_named) {
      for (const auto& one : data) {
        planned.emplace_back().facts.name = one == "plain" ? name : name + "/" + one;
      }
    }
    return planned;
  }
};

Toys toys;
const RegisterFamily registered(toys);

constexpr FreeMemory free_memory{};

/// The selection on a machine whose memory makes no difference.
std::vector<Group> select(const Selection& selection) { return select(selection, free_memory); }

TEST(Description, OfRowsHasTheirFamiliesAndKernelsAlone) {
  std::vector<Record> rows(1);
  rows[0].variant.name = "toy";
  rows[0].problem = {{"family", "toys"}};
  const auto found = describe_families(&rows);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["element"], "toy");
  ASSERT_EQ(found[0]["kernels"].size(), 1u);
  EXPECT_EQ(found[0]["kernels"][0]["name"], "toy");
  EXPECT_EQ(found[0]["kernels"][0]["contract"], "bit_exact");
  EXPECT_GT(describe_families().size(), 1u);
  rows.clear();
  EXPECT_TRUE(describe_families(&rows).empty());
}

TEST(Selection, OfEverythingIsEveryShapeWithEveryKernel) {
  const auto groups = select({});
  EXPECT_EQ(groups.size(), 19u);  // distinct shapes of the paper's models
  for (const auto& group : groups) {
    EXPECT_EQ(group.family, "nf4");
    EXPECT_EQ(group.kernels.size(), groups.front().kernels.size());
  }
}

TEST(Selection, NumbersItsGroups) {
  const auto groups = select({.family = "nf4", .kernel = "", .problem = ""});
  for (std::size_t i = 0; i < groups.size(); ++i) EXPECT_EQ(groups[i].index, i);
}

TEST(Selection, IsDescribedWithItsCountsOfEachFamily) {
  Toys::problems_named = {"a", "b"};
  const std::string text = describe_selection(select({}), {.samples = 5, .batch_us = 500});
  Toys::problems_named = {};
  EXPECT_EQ(text.substr(0, text.find("about")),
            fmt::format("nf4: {} kernels on 19 problems; toys: 1 kernels on 2 problems; ",
                        select({}).front().kernels.size()));
  EXPECT_EQ(text.substr(text.find(" s (")), " s (5 samples per row, 0.5 ms each)");
}

TEST(Selection, MatchesWholeNames) {
  const auto groups = select({.family = "nf*", .kernel = "shared_lut", .problem = "*x5120/*"});
  ASSERT_EQ(groups.size(), 3u);
  for (const auto& group : groups) {
    ASSERT_EQ(group.kernels.size(), 1u);
    EXPECT_EQ(group.kernels[0].name, "shared_lut");
  }
}

TEST(Selection, OfAKernelLeavesOutTheFamiliesWithoutIt) {
  const auto groups = select({.family = "", .kernel = "shared_lut", .problem = ""});
  EXPECT_EQ(groups.size(), 19u);
  for (const auto& group : groups) EXPECT_EQ(group.family, "nf4");
}

/// Otherwise their rows would have the same keys.
TEST(Selection, RefusesAProblemThatIsThereTwice) {
  Toys::problems_named = {"a", "b", "a"};
  EXPECT_EQ(message_of<UsageError>([] { select({.family = "toys", .kernel = "", .problem = ""}); }),
            "problem 'a' is selected twice");
  EXPECT_EQ(select({.family = "toys", .kernel = "", .problem = "b"}).size(), 1u);
  Toys::problems_named = {};
}

std::vector<std::string> names_of(const std::vector<Group>& groups) {
  std::vector<std::string> names;
  for (const auto& group : groups) names.push_back(group.planned.facts.name);
  return names;
}

TEST(Selection, OfDataIsOfTheFamiliesThatHaveIt) {
  Toys::problems_named = {"a", "b"};
  const auto toys = [](const std::vector<std::string>& data) {
    return names_of(select({.family = "toys", .data = data}));
  };
  EXPECT_EQ(toys({}), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(toys({"sorted"}), (std::vector<std::string>{"a/sorted", "b/sorted"}));
  EXPECT_EQ(toys({"sorted", "plain"}),
            (std::vector<std::string>{"a/sorted", "a", "b/sorted", "b"}));
  EXPECT_EQ(names_of(select({.data = {"plain"}})), (std::vector<std::string>{"a", "b"}))
      << "nf4 has no such data";
  EXPECT_EQ(select({.data = {"sorted"}}).size(), 19u + 2);
  EXPECT_EQ(select({.data = {"plain", "uniform"}}).size(), 19u + 2) << "each family its own";
  Toys::problems_named = {};
}

TEST(Selection, MayBeOfWarmProblems) {
  Toys::problems_named = {"a"};
  const auto groups = select({.family = "toys", .problem = "*/warm", .warm = true});
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].planned.facts.name, "a/warm");
  EXPECT_TRUE(groups[0].planned.warm);
  EXPECT_FALSE(select({.family = "toys"})[0].planned.warm);
  Toys::problems_named = {};
}

TEST(Selection, RefusesDataThatNoSelectedFamilyHas) {
  EXPECT_EQ(message_of<UsageError>([] {
              select({.data = {"sorted", "zeros"}});
            }),
            "--data 'zeros' selects nothing; there are: equal, normal, plain, sorted, uniform");
  EXPECT_EQ(message_of<UsageError>([] { select({.family = "nf4", .data = {"plain"}}); }),
            "--data 'plain' selects nothing; there are: equal, normal, sorted, uniform");
  EXPECT_EQ(message_of<UsageError>([] {
              select({.family = "nf4", .data = {"equal", "equal"}});
            }).substr(0, 8),
            "problem ");
}

/// Selected by the family's own option, such as --matrix.
TEST(Selection, OfAFamilysOwnProblemsIsOfThatFamilyAlone) {
  Toys::problems_named = {"a"};
  Toys::asked_for = true;
  const auto groups = select({});
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].family, "toys");
  EXPECT_EQ(select({.family = "nf4", .kernel = "", .problem = ""}).size(), 19u);
  Toys::problems_named = {};
  Toys::asked_for = false;
}

}  // namespace
}  // namespace reprolab::bench
