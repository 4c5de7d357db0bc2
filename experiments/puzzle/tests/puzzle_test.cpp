// A short puzzle. Times are only checked to exist and to add up.
#include "experiments/puzzle/puzzle.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "harness/ceilings.hpp"
#include "tests/kernels/nf4/testing.hpp"
#include "tests/text.hpp"

namespace reprolab::puzzle {
namespace {

VariantInfo kernel(const std::string& name) { return variant_named<nf4::Problem>(name); }

class OnGpuPuzzle : public OnGpuTest {
 protected:
  Puzzle& puzzle(NotCapturable not_capturable = {}) {
    reference::self_test_comparison();
    instrument_ = profiling::make_instrument(profiling::InstrumentKind::events);
    puzzle_.emplace(2, 1, "test", std::move(not_capturable));
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

TEST_F(OnGpuPuzzle, UncapturableKernelsAreTimedOnlyAsPublished) {
  puzzle({{"packed_store", "it ended the process"}});
  Row row = verified("packed_store");
  const auto sampled = puzzle_->sample(row.record.variant);
  EXPECT_EQ(sampled.written.outcome, Outcome::bit_exact) << sampled.written.reason;
  EXPECT_GT(value_of(sampled.sample, wall_time), 0);
  EXPECT_EQ(value_of(sampled.sample, kernel_time), -1);
  ASSERT_EQ(sampled.sample.missing.size(), 4u);
  for (const auto& missing : sampled.sample.missing) {
    EXPECT_TRUE(begins(missing.name, kernel_time));
    EXPECT_EQ(missing.why, "cannot be captured in a CUDA graph: it ended the process");
  }
}

TEST_F(OnGpuPuzzle, SoundKernelsCanBeCaptured) {
  for (const auto& variant : registered_variants<nf4::Problem>()) {
    if (variant.name.starts_with("test_")) continue;
    EXPECT_EQ(why_not_capturable(variant), "") << variant.name;
  }
  EXPECT_TRUE(begins(why_not_capturable(kernel("test_too_many_threads")), "launch: "));
  EXPECT_EQ(why_not_capturable(kernel("test_supports_nothing")), "");
}

}  // namespace
}  // namespace reprolab::puzzle
