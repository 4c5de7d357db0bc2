#include "harness/errors.hpp"

#include <gtest/gtest.h>

namespace reprolab {
namespace {

TEST(Printable, ControlCharactersAreEscapedAndOtherTextStays) {
  EXPECT_EQ(printable("größe ж a b\\x"), "größe ж a b\\x");
  EXPECT_EQ(printable("a\nb\tc\x1b[31m\x7f"), "a\\x0ab\\x09c\\x1b[31m\\x7f");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
}

/// Expects run_program's status and what it prints on stderr.
void expect_end(int (*body)(), int status, const std::string& line) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_program("program", body), status) << line;
  EXPECT_EQ(testing::internal::GetCapturedStderr(), line);
}

TEST(RunProgram, EndsInTheBodysStatusOrInOneLineForItsException) {
  expect_end([] { return 0; }, 0, "");
  expect_end([] { return 1; }, 1, "");
  expect_end([]() -> int { throw UsageError("a\nsummary: all well\x1b[2K"); }, 2,
             "program: a\\x0asummary: all well\\x1b[2K\n");
  expect_end([]() -> int { throw KernelCrashed("k", "k: an illegal memory access"); }, 1,
             "program: k: an illegal memory access\n");
  // Nothing is then known about any output, so none is called wrong.
  expect_end([]() -> int { throw std::logic_error("self-test: missed a NaN"); }, 3,
             "program: self-test: missed a NaN\n");
}

}  // namespace
}  // namespace reprolab
