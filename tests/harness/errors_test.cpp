#include "experiments/harness/errors.hpp"

#include <gtest/gtest.h>

namespace reprolab {
namespace {

/// Returns run_program's status and what it prints on stderr.
std::pair<int, std::string> run(int (*body)()) {
  testing::internal::CaptureStderr();
  const int status = run_program("program", body);
  return {status, testing::internal::GetCapturedStderr()};
}

TEST(RunProgram, TheBodysStatusIsTheProgramsAndNothingIsPrinted) {
  EXPECT_EQ(run([] { return 0; }), std::pair(0, std::string()));
  EXPECT_EQ(run([] { return 1; }), std::pair(1, std::string()));
}

TEST(RunProgram, WrongUsageIsOneLineAndExit2) {
  EXPECT_EQ(run([]() -> int { throw UsageError("--a: expected b"); }),
            std::pair(2, std::string("program: --a: expected b\n")));
}

TEST(RunProgram, AnyOtherExceptionIsOneLineAndExit1) {
  EXPECT_EQ(run([]() -> int { throw std::logic_error("self-test: missed a NaN"); }),
            std::pair(1, std::string("program: self-test: missed a NaN\n")));
  EXPECT_EQ(run([]() -> int { throw std::runtime_error("launch failed"); }),
            std::pair(1, std::string("program: launch failed\n")));
}

}  // namespace
}  // namespace reprolab
