// What bench plans: its selection and how much of it fits.
#include "experiments/bench/plan.hpp"

#include <gtest/gtest.h>

#include "experiments/harness/errors.hpp"
#include "tests/message_of.hpp"

namespace reprolab::bench {
namespace {

PlannedProblem problem_of(std::uint64_t slot_bytes, std::int64_t elements) {
  PlannedProblem planned;
  planned.facts.name = "4x4/fp16/b64";
  planned.facts.elements = elements;
  planned.slot_device_bytes = slot_bytes;
  return planned;
}

TEST(Slots, AreWhatAColdRunWantsWhereMemoryAllows) {
  EXPECT_EQ(slots_for(problem_of(100, 10), 1000, 1 << 20), 30);
  EXPECT_EQ(slots_for(problem_of(5000, 10), 1000, 1 << 20), 2);
}

TEST(Slots, AreWhatFitsBesideTheVerifiersOutputsWhereItDoesNot) {
  EXPECT_EQ(slots_for(problem_of(100, 10), 1000, 2 * 20 + 7 * 100), 7);
  EXPECT_EQ(slots_for(problem_of(100, 10), 1000, 2 * 20 + 2 * 100), 2);
}

TEST(Slots, ThatNotTwoFitIsAnErrorWithItsCure) {
  constexpr std::uint64_t gib = 1 << 30;
  EXPECT_EQ(message_of<UsageError>([&] { slots_for(problem_of(5 * gib, gib), 1000, 13 * gib); }),
            "4x4/fp16/b64: needs 14.0 GiB of device memory, 13.0 GiB are free; select a smaller "
            "--problem");
  EXPECT_EQ(message_of<UsageError>([&] { slots_for(problem_of(gib, gib), 1000, 0); }),
            "4x4/fp16/b64: needs 6.0 GiB of device memory, 0.0 GiB are free; select a smaller "
            "--problem");
}

TEST(Selection, OfEverythingIsEveryShapeWithEveryKernel) {
  const auto groups = select({});
  EXPECT_EQ(groups.size(), 19u);  // distinct shapes of the paper's models
  for (const auto& group : groups) {
    EXPECT_EQ(group.family, "nf4");
    EXPECT_EQ(group.kernels.size(), groups.front().kernels.size());
  }
}

TEST(Selection, IsASearchInTheNames) {
  const auto groups = select({.family = "nf", .kernel = "^shared_lut$", .problem = "x5120/"});
  ASSERT_EQ(groups.size(), 3u);
  for (const auto& group : groups) {
    ASSERT_EQ(group.kernels.size(), 1u);
    EXPECT_EQ(group.kernels[0].name, "shared_lut");
  }
}

}  // namespace
}  // namespace reprolab::bench
