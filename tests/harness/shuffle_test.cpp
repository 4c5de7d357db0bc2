// The order of samples, and the middle of them.
#include "harness/shuffle.hpp"

#include <gtest/gtest.h>

#include "profiling/basics.hpp"

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

/// The hash of a text that FNV's authors publish.
TEST(ProblemSeed, IsTheNamesFnv1aHashXorTheSeed) {
  EXPECT_EQ(problem_seed(0xff, "foobar"), 0x85944171f73967e8ull ^ 0xff);
  EXPECT_EQ(problem_seed(0, "\x80"), (0xcbf29ce484222325ull ^ 0x80) * 0x100000001b3ull)
      << "a character past 127 is not negative";
}

TEST(Median, IsTheMiddleOfTheSortedSamples) {
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({3, 1}), 2);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({40, 10, 1000, 20}), 30);
  EXPECT_THROW(median({}), std::invalid_argument);
}

}  // namespace
}  // namespace reprolab
