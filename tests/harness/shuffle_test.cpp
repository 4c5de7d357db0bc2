#include "experiments/harness/shuffle.hpp"

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

/// Each of 4 variants comes first about a quarter of the time; 5 standard deviations allowed.
TEST(SampleOrder, NoVariantIsFavoured) {
  SampleOrder order(4, 1);
  std::vector<int> first(4);
  for (int round = 0; round < 10000; ++round) ++first[order.next_round()[0]];
  for (const int count : first) EXPECT_NEAR(count, 2500, 217);
}

TEST(SampleOrder, NoneAndOneAreOrdersToo) {
  EXPECT_TRUE(SampleOrder(0, 1).next_round().empty());
  EXPECT_EQ(SampleOrder(1, 1).next_round(), Order{0});
}

}  // namespace
}  // namespace reprolab
