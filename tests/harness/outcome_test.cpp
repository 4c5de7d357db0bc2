#include "harness/outcome.hpp"

#include <gtest/gtest.h>

namespace reprolab {
namespace {

struct Expected {
  Outcome outcome;
  std::string_view name;
  bool may_be_timed, is_failure;
};

TEST(Outcome, NamesTimesAndFailures) {
  constexpr Expected all[] = {
      {Outcome::bit_exact, "bit_exact", true, false},
      {Outcome::deviation_as_declared, "deviation_as_declared", true, false},
      {Outcome::mismatch, "mismatch", false, true},
      {Outcome::launch_failed, "launch_failed", false, true},
      {Outcome::unsupported, "unsupported", false, false},
      {Outcome::not_measured, "not_measured", false, false},
      {Outcome::not_verified, "not_verified", false, false},
  };
  for (const Expected& expected : all) {
    EXPECT_EQ(name(expected.outcome), expected.name);
    EXPECT_EQ(may_be_timed(expected.outcome), expected.may_be_timed) << expected.name;
    EXPECT_EQ(is_failure(expected.outcome), expected.is_failure) << expected.name;
  }
}

TEST(Outcome, ExitStatusesAreThoseOfTheManual) {
  EXPECT_EQ(exit_verified, 0);
  EXPECT_EQ(exit_wrong_output, 1);
  EXPECT_EQ(exit_usage, 2);
  EXPECT_EQ(exit_not_measured, 3);
}

}  // namespace
}  // namespace reprolab
