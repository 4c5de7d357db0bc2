// What bench plans: its selection and how much of it fits.
#include "experiments/bench/plan.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "experiments/harness/errors.hpp"
#include "experiments/harness/measure.hpp"
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

/// A second family, without problems.
class Toys : public Family {
 public:
  static inline std::string kernel = "toy";

  std::string name() const override { return "toys"; }
  void add_options(CLI::App&) override {}
  void configure() override {}
  std::vector<VariantInfo> kernels() const override {
    VariantInfo variant;
    variant.name = kernel;
    return {variant};
  }
  std::vector<PlannedProblem> problems() const override { return {}; }
};

Toys toys;
const RegisterFamily registered(toys);

TEST(Slots, AreWhatAColdRunWantsWhereMemoryAllows) {
  EXPECT_EQ(slots_for(problem_of(100, 10), 1000, 1 << 20), 31);
  EXPECT_EQ(slots_for(problem_of(5000, 10), 1000, 1 << 20), 3);
}

TEST(Slots, AreWhatFitsBesideTheVerifiersOutputsWhereItDoesNot) {
  EXPECT_EQ(slots_for(problem_of(100, 10), 1000, 2 * 20 + 7 * 100), 7);
  EXPECT_EQ(slots_for(problem_of(100, 10), 1000, 2 * 20 + 3 * 100), 3);
}

TEST(Slots, ThatNotThreeFitIsAnErrorWithItsCure) {
  constexpr std::uint64_t gib = 1 << 30;
  EXPECT_EQ(message_of<UsageError>([&] { slots_for(problem_of(5 * gib, gib), 1000, 18 * gib); }),
            "4x4/fp16/b64: needs 19.0 GiB of device memory, 18.0 GiB are free; select a smaller "
            "--problem");
  EXPECT_EQ(message_of<UsageError>([&] { slots_for(problem_of(gib, gib), 1000, 0); }),
            "4x4/fp16/b64: needs 7.0 GiB of device memory, 0.0 GiB are free; select a smaller "
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

TEST(Selection, OfKernelsMatchesWholeNamesAndTheOthersSearch) {
  const auto groups = select({.family = "nf", .kernel = "shared_lut", .problem = "x5120/"});
  ASSERT_EQ(groups.size(), 3u);
  for (const auto& group : groups) {
    ASSERT_EQ(group.kernels.size(), 1u);
    EXPECT_EQ(group.kernels[0].name, "shared_lut");
  }
}

TEST(Selection, OfAKernelLeavesOutTheFamiliesWithoutIt) {
  const auto groups = select({.family = "", .kernel = "shared_lut", .problem = ""});
  EXPECT_EQ(groups.size(), 19u);
  for (const auto& group : groups) EXPECT_EQ(group.family, "nf4");
}

TEST(Selection, RefusesAKernelWithTheNameOfACeiling) {
  for (const auto& ceiling : ceiling_variants()) {
    Toys::kernel = ceiling.name;
    EXPECT_EQ(
        message_of<UsageError>([] { select({.family = "toys", .kernel = "", .problem = ""}); }),
        fmt::format("kernel '{}' has the name of a ceiling; rename it", ceiling.name));
  }
  Toys::kernel = "copy_packed";
  EXPECT_NO_THROW(select({}));
}

}  // namespace
}  // namespace reprolab::bench
