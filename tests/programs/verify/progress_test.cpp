#include "programs/verify/progress.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

namespace reprolab::verify {
namespace {

using namespace std::chrono_literals;

TEST(LateNotice, SaysNothingOfWorkThatEndsInTime) {
  testing::internal::CaptureStderr();
  { const LateNotice notice(1h, "still at it"); }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(LateNotice, PrintsItsLineDuringTheWork) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const int stderr_before = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  std::array<char, 64> line{};
  ssize_t bytes = 0;
  {
    const LateNotice notice(1ms, "still at it");
    bytes = ::read(ends[0], line.data(), line.size());  // waits for it
  }
  ::dup2(stderr_before, STDERR_FILENO);
  for (const int descriptor : {stderr_before, ends[0], ends[1]}) ::close(descriptor);
  EXPECT_EQ(std::string(line.data(), bytes), "still at it\n");
}

TEST(Progress, SaysEachTenthOnceWhereThereIsNoTerminal) {
  testing::internal::CaptureStderr();
  Progress progress(100, true);
  for (int i = 0; i < 5; ++i) progress.advance(5);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "verify: 10 % done\nverify: 20 % done\n");
}

}  // namespace
}  // namespace reprolab::verify
