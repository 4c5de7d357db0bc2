// Windows cover each output row once, whatever its alignment, and begin at multiples of 32 bytes.
#include "kernels/transpose/shifted_window.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace reprolab::transpose::shifted {
namespace {

constexpr std::uintptr_t aligned = 4096;

/// Calls `check(row_start, length)` for rows that begin at each of the 8 elements of 32 bytes.
template <class Check>
void for_each_row(Check check) {
  for (std::uintptr_t element = 0; element < 8; ++element) {
    for (std::int64_t length = 1; length <= 200; ++length) check(aligned + 4 * element, length);
  }
}

/// The first element of window `index`, which may be before the start of the row.
std::int64_t start_of(std::uint32_t index, std::uintptr_t row_start) {
  return std::int64_t{index} * window - shift_of(row_start);
}

TEST(Windows, CoverEachElementOnce) {
  for_each_row([](std::uintptr_t row_start, std::int64_t length) {
    std::vector<int> covered(static_cast<std::size_t>(length), 0);
    for (std::uint32_t index = 0; index < windows_over(length); ++index) {
      const std::int64_t start = start_of(index, row_start);
      for (std::int64_t at = std::max<std::int64_t>(start, 0);
           at < std::min(start + window, length); ++at) {
        ++covered[static_cast<std::size_t>(at)];
      }
    }
    EXPECT_EQ(std::ranges::count(covered, 1), length)
        << length << " elements, " << row_start % 32 << " bytes past a multiple of 32";
  });
}

TEST(Windows, BeginAtMultiplesOf32Bytes) {
  for_each_row([](std::uintptr_t row_start, std::int64_t length) {
    for (std::uint32_t index = 0; index < windows_over(length); ++index) {
      const auto address = static_cast<std::int64_t>(row_start) + 4 * start_of(index, row_start);
      EXPECT_EQ(address % 32, 0) << "window " << index;
    }
  });
}

TEST(Windows, LieWithinTheRowsOfInputThatABlockLoads) {
  for_each_row([](std::uintptr_t row_start, std::int64_t length) {
    for (std::uint32_t index = 0; index < windows_over(length); ++index) {
      const std::int64_t loaded = std::int64_t{index} * window - (unit - 1);
      EXPECT_GE(start_of(index, row_start), loaded);
      EXPECT_LE(start_of(index, row_start) + window, loaded + height);
    }
  });
}

TEST(Windows, AreAsFewAsAnyStartOfTheRowAllows) {
  EXPECT_EQ(windows_over(0), 0u);
  for (std::int64_t length = 1; length <= 200; ++length) {
    const std::int64_t one_less = std::int64_t{windows_over(length)} - 1;
    // The worst start, 7 elements past a multiple of 32 bytes, needs all of the windows.
    EXPECT_LT(one_less * window - (unit - 1), length);
  }
  EXPECT_EQ(windows_over(25), 1u);
  EXPECT_EQ(windows_over(26), 2u);
  EXPECT_EQ(windows_over((std::int64_t{1} << 31) - 1), (1u << 26) + 1);
}

TEST(ShiftOf, IsTheRowsDistanceFromAMultipleOf32Bytes) {
  for (std::uintptr_t element = 0; element < 64; ++element) {
    EXPECT_EQ(shift_of(aligned + 4 * element), static_cast<int>(element % 8));
  }
}

}  // namespace
}  // namespace reprolab::transpose::shifted
