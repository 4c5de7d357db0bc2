// The order of samples, and the middle of them.
#include "harness/shuffle.hpp"

#include <gtest/gtest.h>

#include <set>

#include "common/median.hpp"
#include "tests/message_of.hpp"

namespace reprolab {
namespace {

using Order = std::vector<std::size_t>;

TEST(SampleOrder, ASeedGivesTheSameOrdersOnEveryMachine) {
  SampleOrder order(8, 1);
  EXPECT_EQ(order.next_round(), (Order{4, 6, 3, 5, 1, 7, 2, 0}));
  EXPECT_EQ(order.next_round(), (Order{4, 7, 2, 5, 0, 1, 3, 6}));
  EXPECT_EQ(SampleOrder(8, 2).next_round(), (Order{7, 5, 2, 0, 3, 1, 6, 4}));
  EXPECT_TRUE(SampleOrder(0, 1).next_round().empty());
  EXPECT_EQ(SampleOrder(1, 1).next_round(), Order{0});
}

TEST(SampleOrder, EveryRoundHoldsEveryVariantOnceInAnOrderOfItsOwn) {
  SampleOrder order(13, 5);
  std::set<Order> seen;
  for (int round = 0; round < 100; ++round) {
    const Order& now = *seen.insert(order.next_round()).first;
    EXPECT_EQ(std::set(now.begin(), now.end()).size(), 13u);
    EXPECT_EQ(*std::ranges::max_element(now), 12u);
  }
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

TEST(Median, IsTheMiddleOfTheSortedSamples) {
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({3, 1}), 2);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({40, 10, 1000, 20}), 30);
  EXPECT_EQ(message_of<std::invalid_argument>([] { median({}); }), "median: no samples");
}

}  // namespace
}  // namespace reprolab
