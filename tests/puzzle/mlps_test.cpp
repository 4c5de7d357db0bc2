// What the puzzle moves, against the numbers as published and counted by hand.
#include "experiments/puzzle/mlps.hpp"

#include <gtest/gtest.h>

namespace reprolab::puzzle {
namespace {

TEST(PuzzleMlps, AreThoseOfThePuzzle) {
  EXPECT_EQ(mlps[0].name(), "2048x8192");
  EXPECT_EQ(mlps[1].name(), "1024x4096");
  EXPECT_EQ(mlps[2].name(), "4096x14336");
  EXPECT_EQ(mlps[0].output, reference::WeightType::fp16);
  EXPECT_EQ(mlps[1].output, reference::WeightType::bf16);
  EXPECT_EQ(mlps[2].output, reference::WeightType::bf16);
  for (const Mlp& mlp : mlps) {
    EXPECT_EQ(mlp.matrix().weights(), mlp.hidden * mlp.intermediate);
    EXPECT_EQ(mlp.matrix().block_size, 64);
    EXPECT_TRUE(mlp.matrix().nested);
    EXPECT_EQ(mlp.matrix().output, mlp.output);
  }
}

TEST(PuzzleMlps, MoveTheBytesAsPublished) {
  const RunFacts facts;
  EXPECT_EQ(facts.iterations, 1000);
  EXPECT_EQ(facts.launches(), 9000);
  EXPECT_EQ(facts.weights(), 3 * (2048 * 8192 + 1024 * 4096 + 4096 * 14336));
  // A weight: half a byte of codes, a 64th of a scale code, a 16384th of four bytes; two out.
  const auto weights = static_cast<std::uint64_t>(facts.weights());
  EXPECT_EQ(facts.bytes_read(), 1000 * (weights / 2 + weights / 64 + 4 * (weights / 16384)));
  EXPECT_EQ(facts.bytes_written(), 1000 * 2 * weights);
  const double moved = static_cast<double>(facts.bytes_read() + facts.bytes_written());
  EXPECT_NEAR(1e-9 * moved, 601.48, 0.005);
  EXPECT_NEAR(moved / 1000 / static_cast<double>(weights), 2.515869, 1e-6);
}

TEST(PuzzleMlps, BytesAndLaunchesAreInProportionToTheIterations) {
  const RunFacts once{1}, often{7};
  EXPECT_EQ(often.bytes_read(), 7 * once.bytes_read());
  EXPECT_EQ(often.bytes_written(), 7 * once.bytes_written());
  EXPECT_EQ(once.launches(), 9);
  EXPECT_EQ(often.launches(), 63);
  EXPECT_EQ(often.weights(), once.weights());
}

TEST(PuzzleMlps, ARowTellsHowEachMlpDiffers) {
  EXPECT_EQ(
      describe_differences({{{215, 684502, 1}, {}, {3, 17, 2}}}),
      "2048x8192 fp16: 215 of 16777216 weights differ, by at most 1 ULP; 1024x4096 bf16: 0 of "
      "4194304 weights differ; 4096x14336 bf16: 3 of 58720256 weights differ, by at most 2 "
      "ULPs");
}

TEST(PuzzleMlps, ARecordSaysWhatItIsOf) {
  const nlohmann::json problem = RunFacts{250}.describe();
  EXPECT_EQ(problem, (nlohmann::json{{"name", "three MLPs, 250 times"},
                                     {"family", "puzzle"},
                                     {"iterations", 250},
                                     {"iterations_per_graph", 50},
                                     {"launches", 2250},
                                     {"weights", 239075328},
                                     {"block_size", 64},
                                     {"nested", true}}));
}

TEST(PuzzleMlps, WholeGraphsMakeUpTheIterations) {
  EXPECT_EQ(iterations_per_graph(1000), 100);
  EXPECT_EQ(iterations_per_graph(1), 1);
  EXPECT_EQ(iterations_per_graph(100), 100);
  EXPECT_EQ(iterations_per_graph(101), 1);
  EXPECT_EQ(iterations_per_graph(150), 75);
  for (int iterations = 1; iterations <= 1000; ++iterations) {
    const int per_graph = iterations_per_graph(iterations);
    EXPECT_EQ(iterations % per_graph, 0) << iterations;
    EXPECT_LE(per_graph, 100) << iterations;
  }
}

}  // namespace
}  // namespace reprolab::puzzle
