#include "harness/shuffle.hpp"

#include <gtest/gtest.h>

#include <set>

namespace reprolab {
namespace {

using Order = std::vector<std::size_t>;

TEST(SampleOrder, ASeedGivesTheSameOrdersOnEveryMachine) {
  SampleOrder order(8, 1);
  EXPECT_EQ(order.next_round(), (Order{4, 6, 3, 5, 1, 7, 2, 0}));
  EXPECT_EQ(order.next_round(), (Order{4, 7, 2, 5, 0, 1, 3, 6}));
  SampleOrder other(8, 2);
  EXPECT_EQ(other.next_round(), (Order{7, 5, 2, 0, 3, 1, 6, 4}));
}

TEST(SampleOrder, EveryRoundHoldsEveryVariantOnce) {
  SampleOrder order(13, 5);
  for (int round = 0; round < 100; ++round) {
    const Order& now = order.next_round();
    EXPECT_EQ(std::set(now.begin(), now.end()).size(), 13u);
    EXPECT_EQ(*std::ranges::max_element(now), 12u);
  }
}

TEST(SampleOrder, RoundsDifferFromOneAnother) {
  SampleOrder order(13, 5);
  std::set<Order> seen;
  for (int round = 0; round < 100; ++round) seen.insert(order.next_round());
  EXPECT_EQ(seen.size(), 100u);
}

/// Each of 4 variants comes first about a quarter of the time; 5 standard deviations are allowed.
TEST(SampleOrder, NoVariantIsFavoured) {
  SampleOrder order(4, 1);
  std::vector<int> first(4);
  for (int round = 0; round < 10000; ++round) ++first[order.next_round()[0]];
  for (const int count : first) EXPECT_NEAR(count, 2500, 217);
}

/// The hashes of the empty text and of two others that FNV's authors publish.
TEST(ProblemSeed, IsTheNamesFnv1aHashXorTheSeed) {
  static_assert(problem_seed(0, "") == 0xcbf29ce484222325ull);
  static_assert(problem_seed(0, "a") == 0xaf63dc4c8601ec8cull);
  static_assert(problem_seed(0, "foobar") == 0x85944171f73967e8ull);
  EXPECT_EQ(problem_seed(0xff, "foobar"), 0x85944171f7396717ull);
  EXPECT_EQ(problem_seed(0, "\x80"), (0xcbf29ce484222325ull ^ 0x80) * 0x100000001b3ull)
      << "a character past 127 is not negative";
}

TEST(ProblemSeed, ProblemsOfOneRunAreSampledInOrdersOfTheirOwn) {
  std::set<std::vector<Order>> seen;
  for (const char* problem : {"4x4/fp16/b64", "4x8/fp16/b64", "8x4/fp16/b64"}) {
    for (const std::uint64_t seed : {1, 2}) {
      SampleOrder order(13, problem_seed(seed, problem));
      const Order first = order.next_round();
      seen.insert({first, order.next_round()});
    }
  }
  EXPECT_EQ(seen.size(), 6u);
}

TEST(SampleOrder, NoneAndOneAreOrdersToo) {
  EXPECT_TRUE(SampleOrder(0, 1).next_round().empty());
  EXPECT_EQ(SampleOrder(1, 1).next_round(), Order{0});
}

}  // namespace
}  // namespace reprolab
