// Windows cover each output row once, whatever its alignment, and begin at multiples of 32 bytes.
#include "kernels/transpose/shifted_window.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace reprolab::transpose::shifted {
namespace {

/// Rows that begin at each of the 8 elements of 32 bytes.
TEST(Windows, CoverEachElementOnceFromMultiplesOf32BytesWithinWhatABlockLoads) {
  for (std::int64_t element = 0; element < 8; ++element) {
    const std::int64_t row_start = 4096 + 4 * element;
    const int shift = shift_of(static_cast<std::uintptr_t>(row_start));
    EXPECT_EQ(shift, element);
    for (std::int64_t length = 1; length <= 200; ++length) {
      SCOPED_TRACE(testing::Message() << length << " elements from element " << element);
      std::vector<int> covered(static_cast<std::size_t>(length), 0);
      for (std::uint32_t index = 0; index < windows_over(length); ++index) {
        const std::int64_t start = std::int64_t{index} * window - shift;
        const std::int64_t loaded = std::int64_t{index} * window - (unit - 1);
        EXPECT_EQ((row_start + 4 * start) % 32, 0);
        EXPECT_GE(start, loaded);
        EXPECT_LE(start + window, loaded + height);
        for (auto at = std::max<std::int64_t>(start, 0); at < std::min(start + window, length);
             ++at) {
          ++covered[static_cast<std::size_t>(at)];
        }
      }
      EXPECT_EQ(std::ranges::count(covered, 1), length);
    }
  }
}

TEST(Windows, AreAsFewAsAnyStartOfTheRowAllows) {
  // The worst start is 7 elements past a multiple of 32 bytes.
  static_assert(windows_over(0) == 0 && windows_over(25) == 1 && windows_over(26) == 2);
  static_assert(windows_over((std::int64_t{1} << 31) - 1) == (1u << 26) + 1);
}

}  // namespace
}  // namespace reprolab::transpose::shifted
