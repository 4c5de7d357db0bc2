// The puzzle's bytes, compared with published numbers and manual counts, and a short puzzle, whose
// times are only checked to exist.
#include "experiments/puzzle/puzzle.hpp"

#include <algorithm>

#include "harness/measure.hpp"
#include "tests/kernels/nf4/testing.hpp"
#include "tests/text.hpp"

namespace reprolab::puzzle {
namespace {

VariantInfo kernel(const std::string& name) { return variant_named<nf4::Problem>(name); }

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

TEST(PuzzleMlps, ARowDescribesItsProblem) {
  EXPECT_EQ(described(facts_of(250)), nlohmann::json::parse(R"({
    "name": "three MLPs, 250 times", "family": "puzzle", "iterations": 250,
    "iterations_per_graph": 50, "launches": 2250, "weights": 239075328, "block_size": 64,
    "nested": true})"));
}

TEST(PuzzleMlps, AWholeNumberOfGraphsMakesUpTheIterations) {
  EXPECT_EQ(iterations_per_graph(1000), 100);
  EXPECT_EQ(iterations_per_graph(101), 1);
  EXPECT_EQ(iterations_per_graph(150), 75);
}

class OnGpuPuzzle : public OnGpuTest {
 protected:
  Puzzle& puzzle() {
    reference::self_test_comparison();
    instrument_ = profiling::make_instrument(profiling::InstrumentKind::events);
    puzzle_.emplace(2, 1, "test");
    return *puzzle_;
  }

  Row verified(const std::string& name) {
    return start_row(facts_of(2), kernel(name), puzzle_->verify(kernel(name), *instrument_));
  }

  std::unique_ptr<profiling::Instrument> instrument_;
  std::optional<Puzzle> puzzle_;
};

double value_of(const profiling::Sample& sample, const std::string& name) {
  const auto reading = std::ranges::find(sample.readings, name, &profiling::Reading::name);
  return reading == sample.readings.end() ? -1 : reading->value;
}

TEST_F(OnGpuPuzzle, AWrongKernelIsDetectedBeforeAndInASample) {
  puzzle();
  Row row = verified("test_swapped_nibbles");
  EXPECT_EQ(row.record.outcome, Outcome::mismatch);
  EXPECT_TRUE(begins(row.record.reason, "2048x8192: ")) << row.record.reason;
  const auto sampled = puzzle_->sample(row.record.variant);
  EXPECT_EQ(sampled.written.outcome, Outcome::mismatch);
  EXPECT_TRUE(begins(sampled.written.reason, "2048x8192.up: ")) << sampled.written.reason;
  EXPECT_EQ(verified("test_too_many_threads").record.outcome, Outcome::launch_failed);
  EXPECT_EQ(verified("test_supports_nothing").record.outcome, Outcome::unsupported);
}

TEST_F(OnGpuPuzzle, ASoundKernelIsTimedBothWays) {
  puzzle();
  Row row = verified("packed_store");
  const auto sampled = puzzle_->sample(row.record.variant);
  EXPECT_EQ(sampled.written.outcome, Outcome::bit_exact) << sampled.written.reason;
  EXPECT_GT(value_of(sampled.sample, wall_time), 0);
  EXPECT_GT(value_of(sampled.sample, kernel_time), 0);
  EXPECT_TRUE(sampled.sample.missing.empty());
}

}  // namespace
}  // namespace reprolab::puzzle
