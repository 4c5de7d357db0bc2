// The puzzle's bytes, compared with published numbers and manual counts.
#include "experiments/puzzle/mlps.hpp"

#include <gtest/gtest.h>

namespace reprolab::puzzle {
namespace {

TEST(PuzzleMlps, MoveTheBytesAsPublished) {
  const ProblemFacts facts = facts_of(1000), once = facts_of(1);
  EXPECT_EQ(launches_of(1000), 9000);
  EXPECT_EQ(facts.elements, 3 * (2048 * 8192 + 1024 * 4096 + 4096 * 14336));
  // A weight: half a byte of codes, a 64th of a scale code, a 16384th of four bytes; two out.
  const auto weights = static_cast<std::uint64_t>(facts.elements);
  EXPECT_EQ(once.bytes_read, weights / 2 + weights / 64 + 4 * (weights / 16384));
  EXPECT_EQ(once.bytes_written, 2 * weights);
  EXPECT_EQ(facts.bytes_read, 1000 * once.bytes_read);
  EXPECT_NEAR(1e-9 * static_cast<double>(facts.bytes_read + facts.bytes_written), 601.48, 0.005);
}

TEST(PuzzleMlps, ARowDescribesItsProblemAndHowEachMlpDiffers) {
  EXPECT_EQ(
      describe_differences({{{215, 684502, 1}, {}, {3, 17, 2}}}),
      "2048x8192 fp16: 215 of 16777216 weights differ, by at most 1 ULP; 1024x4096 bf16: 0 of "
      "4194304 weights differ; 4096x14336 bf16: 3 of 58720256 weights differ, by at most 2 "
      "ULPs");
  EXPECT_EQ(facts_of(250).description, nlohmann::json::parse(R"({
    "name": "three MLPs, 250 times", "family": "puzzle", "iterations": 250,
    "iterations_per_graph": 50, "launches": 2250, "weights": 239075328, "block_size": 64,
    "nested": true})"));
}

TEST(PuzzleMlps, AWholeNumberOfGraphsMakesUpTheIterations) {
  EXPECT_EQ(iterations_per_graph(1000), 100);
  EXPECT_EQ(iterations_per_graph(101), 1);
  EXPECT_EQ(iterations_per_graph(150), 75);
}

}  // namespace
}  // namespace reprolab::puzzle
