// The orders in which blocks take tiles: each tile once, with the documented neighbours.
#include "kernels/transpose/tile_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace reprolab::transpose {
namespace {

using Place = std::pair<std::uint32_t, std::uint32_t>;  // row and column, in tiles

/// Calls `check(rows, columns)`.
template <class Check>
void for_each_extent(Check check) {
  for (const auto& [rows, columns] :
       std::vector<Place>{{1, 1000}, {1000, 1}, {512, 512}, {513, 1027}, {4, 2048}, {2048, 3}}) {
    check(rows, columns);
  }
  for (std::uint32_t rows = 1; rows <= 20; ++rows) {
    for (std::uint32_t columns = 1; columns <= 20; ++columns) check(rows, columns);
  }
}

/// The tiles of all blocks, in the order of the blocks.
template <class Order>
std::vector<Place> walk(std::uint32_t rows, std::uint32_t columns) {
  std::vector<Place> places;
  for (std::uint32_t block = 0; block < rows * columns; ++block) {
    const Tile tile = Order::tile(block, rows, columns);
    places.emplace_back(tile.row, tile.column);
  }
  return places;
}

/// First `at_once` evenly spaced columns, one tile of each in turn; then their neighbours to the
/// right; then the columns that are left over, one by one.
template <std::uint32_t at_once>
void expect_down_columns(std::uint32_t rows, std::uint32_t columns) {
  const std::uint32_t spacing = columns / at_once;
  std::vector<Place> expected;
  for (std::uint32_t first = 0; first < spacing; ++first) {
    for (std::uint32_t row = 0; row < rows; ++row) {
      for (std::uint32_t i = 0; i < at_once; ++i) expected.emplace_back(row, first + i * spacing);
    }
  }
  for (std::uint32_t column = spacing * at_once; column < columns; ++column) {
    for (std::uint32_t row = 0; row < rows; ++row) expected.emplace_back(row, column);
  }
  EXPECT_EQ(walk<DownColumns<at_once>>(rows, columns), expected) << rows << " x " << columns;
}

TEST(TileOrders, DownColumnsTakesSoManyColumnsInTurnsAndLeavesTheRestForTheEnd) {
  EXPECT_EQ(walk<AcrossRows>(2, 2), (std::vector<Place>{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
  for_each_extent(expect_down_columns<1>);
  for_each_extent(expect_down_columns<2>);
  for_each_extent(expect_down_columns<3>);
}

TEST(TilesOver, AreAsFewAsCoverTheLength) {
  static_assert(tiles_over(0, 64) == 0 && tiles_over(1, 64) == 1 && tiles_over(64, 64) == 1);
  static_assert(tiles_over(65, 64) == 2 && tiles_over((std::int64_t{1} << 31) - 1, 64) == 1 << 25);
}

}  // namespace
}  // namespace reprolab::transpose
