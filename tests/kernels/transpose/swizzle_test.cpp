// Where elements lie in shared memory, and which of them a thread moves, compared with the post's
// own arithmetic and element by element.
#include "kernels/transpose/swizzle.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

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
TEST(Swizzled, IsThePostsFormulaAlsoPastTheTile) {
  for (int row = 0; row < tma_tile + batch; ++row) {
    for (int column = 0; column < tma_tile + batch; ++column) {
      EXPECT_EQ(swizzled(row, column), swizzled_by_the_post(row, column))
          << "row " << row << ", column " << column;
    }
  }
}

TEST(Swizzled, PermutesTheChunksOfEachRowAndKeepsTheirElements) {
  for (int row = 0; row < tma_tile; ++row) {
    std::set<int> places;
    for (int column = 0; column < tma_tile; ++column) {
      EXPECT_EQ(swizzled(row, column) % 4, column % 4);
      EXPECT_EQ(swizzled(row, column) / 4, column / 4 ^ row % 8);
      places.insert(swizzled(row, column));
    }
    EXPECT_EQ(places.size(), 32u) << "row " << row;
    EXPECT_EQ(*places.begin(), 0) << "row " << row;
    EXPECT_EQ(*places.rbegin(), 31) << "row " << row;
  }
}

TEST(Swizzled, IsItsOwnInverse) {
  for (int row = 0; row < tma_tile; ++row) {
    for (int column = 0; column < tma_tile; ++column) {
      EXPECT_EQ(swizzled(row, swizzled(row, column)), column);
    }
  }
}

/// How often each element of the tile is moved by `threads` threads with `steps` steps each.
template <class ElementOf>
std::vector<int> counts(int threads, int steps, ElementOf element_of) {
  std::vector<int> found(tile_elements, 0);
  for (int thread = 0; thread < threads; ++thread) {
    for (int j = 0; j < steps; ++j) {
      const auto [row, column] = element_of(thread, j);
      EXPECT_TRUE(row >= 0 && row < tma_tile && column >= 0 && column < tma_tile);
      ++found[static_cast<std::size_t>(row * tma_tile + column) % tile_elements];
    }
  }
  return found;
}

TEST(ElementsOfThreads, CoverTheTileOnce) {
  const std::vector<int> once(tile_elements, 1);
  EXPECT_EQ(counts(1024, 1, [](int thread, int) { return single_element(thread); }), once);
  EXPECT_EQ(counts(128, batch, batched_element), once);
}

TEST(BatchedElement, IsOneOfEightNeighboursOfARow) {
  for (int thread = 0; thread < 128; ++thread) {
    const auto [row, first] = batched_element(thread, 0);
    EXPECT_EQ(first % batch, 0);
    for (int j = 0; j < batch; ++j) {
      EXPECT_EQ(batched_element(thread, j).row, row);
      EXPECT_EQ(batched_element(thread, j).column, first + j);
    }
  }
}

std::vector<Move> published_moves() {
  std::vector<Move> moves;
  for (int thread = 0; thread < tile_elements / batch; ++thread) {
    for (int j = 0; j < batch; ++j) moves.push_back(published_move(thread, j));
  }
  return moves;
}

/// Both sides by the post's lines: column + j only inside the swizzle.
TEST(PublishedMove, IsThePosts) {
  for (int thread = 0; thread < tile_elements / batch; ++thread) {
    for (int j = 0; j < batch; ++j) {
      const int row = thread / 32, column = thread % 32;
      const auto [from, to] = published_move(thread, j);
      EXPECT_EQ(from, row * 32 + swizzled_by_the_post(row, column + j));
      EXPECT_EQ(to, column * 32 + swizzled_by_the_post(column + j, row));
    }
  }
}

TEST(PublishedMove, WritesEachPlaceOnceAndReadsTheFirstFourRowsAlone) {
  std::vector<int> written(tile_elements, 0);
  std::set<int> rows_read;
  for (const auto [from, to] : published_moves()) {
    ASSERT_TRUE(to >= 0 && to < tile_elements) << to;
    ++written[static_cast<std::size_t>(to)];
    rows_read.insert(from / tma_tile);
  }
  EXPECT_EQ(written, std::vector<int>(tile_elements, 1));
  EXPECT_EQ(rows_read, (std::set<int>{0, 1, 2, 3}));
}

TEST(PublishedMove, PutsOneElementInEightWhereTheTransposeHasIt) {
  // For each place of the stored tile of a correct transpose, the place that it comes from.
  std::vector<int> right(tile_elements);
  for (int row = 0; row < tma_tile; ++row) {
    for (int column = 0; column < tma_tile; ++column) {
      right[static_cast<std::size_t>(flat_swizzled(column, row))] = flat_swizzled(row, column);
    }
  }
  const auto moves = published_moves();
  const auto good = std::ranges::count_if(moves, [&](const Move& move) {
    return right[static_cast<std::size_t>(move.to)] == move.from;
  });
  EXPECT_EQ(good, 128);
}

/// The shared tile of column_walk and tiled: 128 rows of 4 chunks, 64 of 16, and other possible
/// sizes.
TEST(ChunkOf, GivesEveryChunkOfATileItsOwnPlace) {
  for (const int chunks : {4, 8, 16, 32}) {
    for (const int rows : {8, 64, 128}) {
      std::vector<int> found(static_cast<std::size_t>(rows * chunks), 0);
      for (int row = 0; row < rows; ++row) {
        for (int chunk = 0; chunk < chunks; ++chunk) {
          const int place = chunk_of(row, chunk, chunks);
          ASSERT_TRUE(place >= 0 && place < rows * chunks) << place;
          ++found[static_cast<std::size_t>(place)];
        }
      }
      EXPECT_EQ(std::ranges::count(found, 1), rows * chunks) << rows << " rows of " << chunks;
    }
  }
}

}  // namespace
}  // namespace reprolab::transpose
