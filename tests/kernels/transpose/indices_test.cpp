// The kernels' index functions: where elements lie in shared memory and which of them the published
// kernel moves, by the post's own arithmetic.
#include <gtest/gtest.h>

#include <set>

#include "kernels/transpose/tiles.hpp"

namespace reprolab::transpose {
namespace {

constexpr int tile_elements = tma_tile * tma_tile;

/// The post's lines, unchanged: addresses in bytes, chunks of 16 bytes, rows of 128 bytes.
int swizzled_by_the_post(int row, int column) {
  const int i16 = (row * 32 + column) * 4 >> 4;
  const int y16 = i16 >> 3;
  const int x16 = i16 & 7;
  return ((y16 ^ x16) * 4 & (32 - 1)) + (column & 3);
}

/// Includes the rows and columns that a step of up to 7 more can reach.
TEST(Swizzled, IsThePostsFormulaAndItsOwnInverse) {
  for (int row = 0; row < tma_tile + batch; ++row) {
    for (int column = 0; column < tma_tile + batch; ++column) {
      EXPECT_EQ(swizzled(row, column), swizzled_by_the_post(row, column))
          << "row " << row << ", column " << column;
      EXPECT_TRUE(column >= tma_tile || swizzled(row, swizzled(row, column)) == column);
    }
  }
}

/// Both sides by the post's lines: column + j only inside the swizzle. Each place is written once,
/// only from the first four rows, and one in eight with the right element.
TEST(PublishedMove, EqualsThePostsArithmetic) {
  constexpr int threads = tile_elements / batch;
  std::set<int> rows_read, written;
  int right = 0;
  for (int thread = 0; thread < threads; ++thread) {
    for (int j = 0; j < batch; ++j) {
      const int row = thread / 32, column = thread % 32;
      const auto [from, to] = published_move(thread, j);
      EXPECT_EQ(from, row * 32 + swizzled_by_the_post(row, column + j));
      EXPECT_EQ(to, column * 32 + swizzled_by_the_post(column + j, row));
      rows_read.insert(from / tma_tile);
      written.insert(to);
      // The element that lies at `to` in the stored tile of a correct transpose.
      const int out_row = to / tma_tile, out_column = swizzled(out_row, to % tma_tile);
      right += from == flat_swizzled(out_column, out_row);
    }
  }
  EXPECT_EQ(std::ssize(written), tile_elements);
  EXPECT_EQ(rows_read, (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(right, 128);
}

}  // namespace
}  // namespace reprolab::transpose
