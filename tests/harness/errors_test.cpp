#include "harness/errors.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

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

TEST(RunProgram, AMessageIsOneLineThatCannotMoveTheTerminal) {
  EXPECT_EQ(run([]() -> int { throw UsageError("a\nsummary: all well\x1b[2K"); }),
            std::pair(2, std::string("program: a\\x0asummary: all well\\x1b[2K\n")));
}

/// Prints, after `before` has been done to the streams, and exits as a program would.
[[noreturn]] void print_after(void (*before)()) {
  before();
  std::exit(run_program("program", [] {
    fmt::print("all is well\n");
    return 0;
  }));
}

void replace(int descriptor, const char* path) { dup2(open(path, O_WRONLY), descriptor); }

TEST(RunProgramDeathTest, OutputThatIsLostIsAnError) {
  EXPECT_EXIT(print_after([] { replace(STDOUT_FILENO, "/dev/full"); }), testing::ExitedWithCode(2),
              "^program: output to stdout was lost; is the disk full.\n$");
  EXPECT_EXIT(print_after([] { replace(STDOUT_FILENO, "/dev/null"); }), testing::ExitedWithCode(0),
              "^$");
}

TEST(RunProgramDeathTest, AClosedStreamIsRefusedAtOnce) {
  EXPECT_EXIT(print_after([] { close(STDOUT_FILENO); }), testing::ExitedWithCode(2),
              "^program: stdout is closed; send what is not wanted to /dev/null\n$");
  EXPECT_EXIT(print_after([] { close(STDERR_FILENO); }), testing::ExitedWithCode(2), "^$");
  EXPECT_EXIT(print_after([] { close(STDIN_FILENO); }), testing::ExitedWithCode(0), "^$");
}

TEST(RunProgramDeathTest, AMessageThatIsLostStillEndsInItsStatus) {
  EXPECT_EXIT(
      {
        replace(STDERR_FILENO, "/dev/full");
        std::exit(run_program("program", []() -> int { throw std::runtime_error("x"); }));
      },
      testing::ExitedWithCode(3), "^$");
}

TEST(RunProgram, WrongUsageIsOneLineAndExit2) {
  EXPECT_EQ(run([]() -> int { throw UsageError("--a: expected b"); }),
            std::pair(2, std::string("program: --a: expected b\n")));
}

TEST(RunProgram, AKernelThatEndsItIsOneLineAndExit1) {
  EXPECT_EQ(run([]() -> int { throw KernelCrashed("k", "k: an illegal memory access"); }),
            std::pair(1, std::string("program: k: an illegal memory access\n")));
}

/// Nothing is known of any output then, so that none is called wrong.
TEST(RunProgram, AnyOtherExceptionIsOneLineAndExit3) {
  EXPECT_EQ(run([]() -> int { throw std::logic_error("self-test: missed a NaN"); }),
            std::pair(3, std::string("program: self-test: missed a NaN\n")));
  EXPECT_EQ(run([]() -> int { throw std::runtime_error("no socket"); }),
            std::pair(3, std::string("program: no socket\n")));
}

}  // namespace
}  // namespace reprolab
