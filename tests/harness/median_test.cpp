#include "common/median.hpp"

#include <gtest/gtest.h>

#include "tests/message_of.hpp"

namespace reprolab {
namespace {

TEST(Median, IsTheMiddleOfTheSortedSamples) {
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({3, 1}), 2);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({40, 10, 1000, 20}), 30);
}

TEST(Median, OfNothingIsAnError) {
  EXPECT_EQ(message_of<std::invalid_argument>([] { median({}); }), "median: no samples");
}

}  // namespace
}  // namespace reprolab
