#include "experiments/harness/statistics.hpp"

#include <gtest/gtest.h>

#include "tests/message_of.hpp"

namespace reprolab {
namespace {

void expect_summary(const std::vector<double>& samples, const Summary& expected) {
  const Summary found = summarize(samples);
  EXPECT_DOUBLE_EQ(found.min, expected.min);
  EXPECT_DOUBLE_EQ(found.lower_quartile, expected.lower_quartile);
  EXPECT_DOUBLE_EQ(found.median, expected.median);
  EXPECT_DOUBLE_EQ(found.upper_quartile, expected.upper_quartile);
  EXPECT_DOUBLE_EQ(found.max, expected.max);
  EXPECT_EQ(found.n, samples.size());
}

// All computed by hand: rank = p (n - 1), then a straight line between the two neighbours.
TEST(Statistics, QuartilesInterpolateBetweenClosestRanks) {
  expect_summary({4}, {4, 4, 4, 4, 4});
  expect_summary({1, 2}, {1, 1.25, 1.5, 1.75, 2});
  expect_summary({1, 2, 3}, {1, 1.5, 2, 2.5, 3});
  expect_summary({1, 2, 3, 4}, {1, 1.75, 2.5, 3.25, 4});
  expect_summary({10, 20, 40, 80, 160}, {10, 20, 40, 80, 160});
  expect_summary({1, 1, 1, 1, 1, 101}, {1, 1, 1, 1, 101});
}

TEST(Statistics, TheOrderOfSamplesDoesNotMatterAndTheyStayAsTheyWere) {
  const std::vector<double> samples = {3, 1, 4, 2};
  expect_summary(samples, {1, 1.75, 2.5, 3.25, 4});
  EXPECT_EQ(samples, (std::vector<double>{3, 1, 4, 2}));
}

TEST(Statistics, AnyProbability) {
  const std::vector<double> sorted = {0, 10, 20, 30};
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.0), 0);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.1), 3);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.9), 27);
  EXPECT_DOUBLE_EQ(quantile(sorted, 1.0), 30);
}

TEST(Statistics, TheIntervalIsTheRangeBelowFiveSamplesAndTheQuartilesFromThereOn) {
  EXPECT_EQ(fewest_for_quartiles, 5u);
  const Summary three = summarize(std::vector<double>{10, 20, 40});
  EXPECT_DOUBLE_EQ(three.low(), 10);
  EXPECT_DOUBLE_EQ(three.high(), 40);
  const Summary four = summarize(std::vector<double>{10, 20, 40, 80});
  EXPECT_DOUBLE_EQ(four.low(), 10);
  EXPECT_DOUBLE_EQ(four.high(), 80);
  const Summary five = summarize(std::vector<double>{10, 20, 40, 80, 160});
  EXPECT_DOUBLE_EQ(five.low(), 20);
  EXPECT_DOUBLE_EQ(five.high(), 80);
}

TEST(Statistics, NoSamplesAreAnError) {
  EXPECT_EQ(message_of<std::invalid_argument>([] { summarize({}); }), "summarize: no samples");
}

}  // namespace
}  // namespace reprolab
