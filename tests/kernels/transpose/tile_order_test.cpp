// The orders in which blocks take tiles: each tile once, with the documented neighbours.
#include "kernels/transpose/tile_order.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace reprolab::transpose {
namespace {

using Place = std::pair<std::uint32_t, std::uint32_t>;  // row and column, in tiles

struct Extent {
  std::uint32_t rows, columns;

  std::string name() const {
    return std::to_string(rows) + " x " + std::to_string(columns) + " tiles";
  }
};

std::vector<Extent> extents() {
  std::vector<Extent> all{{1, 1000}, {1000, 1}, {512, 512}, {513, 1027}, {4, 2048}, {2048, 3}};
  for (std::uint32_t rows = 1; rows <= 20; ++rows) {
    for (std::uint32_t columns = 1; columns <= 20; ++columns) all.push_back({rows, columns});
  }
  return all;
}

/// The tiles of all blocks, in the order of the blocks.
template <class Order>
std::vector<Place> walk(const Extent& extent) {
  std::vector<Place> places;
  for (std::uint32_t block = 0; block < extent.rows * extent.columns; ++block) {
    const Tile tile = Order::tile(block, extent.rows, extent.columns);
    places.emplace_back(tile.row, tile.column);
  }
  return places;
}

template <class Order>
void expect_every_tile_once(const char* order) {
  for (const Extent& extent : extents()) {
    std::vector<int> taken(extent.rows * extent.columns, 0);
    for (const auto& [row, column] : walk<Order>(extent)) {
      ASSERT_LT(row, extent.rows) << order << ", " << extent.name();
      ASSERT_LT(column, extent.columns) << order << ", " << extent.name();
      ++taken[row * extent.columns + column];
    }
    EXPECT_EQ(taken, std::vector<int>(taken.size(), 1)) << order << ", " << extent.name();
  }
}

TEST(TileOrders, TakeEveryTileOnce) {
  expect_every_tile_once<AcrossRows>("AcrossRows");
  expect_every_tile_once<DownColumns<1>>("DownColumns<1>");
  expect_every_tile_once<DownColumns<2>>("DownColumns<2>");
  expect_every_tile_once<DownColumns<3>>("DownColumns<3>");
}

/// First `at_once` evenly spaced columns, one tile of each in turn; then their neighbours to the
/// right; then the columns that are left over, one by one.
template <std::uint32_t at_once>
void expect_down_columns() {
  for (const Extent& extent : extents()) {
    const std::uint32_t spacing = extent.columns / at_once;
    std::vector<Place> expected;
    for (std::uint32_t first = 0; first < spacing; ++first) {
      for (std::uint32_t row = 0; row < extent.rows; ++row) {
        for (std::uint32_t watchdog = 0; watchdog < at_once; ++watchdog) {
          expected.emplace_back(row, first + watchdog * spacing);
        }
      }
    }
    for (std::uint32_t column = spacing * at_once; column < extent.columns; ++column) {
      for (std::uint32_t row = 0; row < extent.rows; ++row) expected.emplace_back(row, column);
    }
    EXPECT_EQ(walk<DownColumns<at_once>>(extent), expected) << extent.name();
  }
}

TEST(DownColumns, OneAtATimeGoesDownAColumnAndThenTheNext) { expect_down_columns<1>(); }
TEST(DownColumns, TwoAtOnceTakeTurnsHalfTheMatrixApart) { expect_down_columns<2>(); }
TEST(DownColumns, ThreeAtOnceTakeTurnsAThirdApartAndLeaveUpToTwoForTheEnd) {
  expect_down_columns<3>();
}

/// So that neighbouring blocks write neighbouring addresses.
TEST(DownColumns, OneAtATimeStaysInAColumnForAllItsTiles) {
  const auto places = walk<DownColumns<1>>({5, 3});
  EXPECT_EQ(places[4], (Place{4, 0}));
  EXPECT_EQ(places[5], (Place{0, 1}));
}

TEST(DownColumns, OfFewerColumnsThanAtOnceGoesDownThemOneByOne) {
  EXPECT_EQ(walk<DownColumns<3>>({7, 2}), walk<DownColumns<1>>({7, 2}));
}

TEST(TilesOver, AreAsFewAsCoverTheLength) {
  for (const int size : {16, 32, 64, 128}) {
    EXPECT_EQ(tiles_over(0, size), 0u);
    for (std::int64_t length = 1; length < 1000; ++length) {
      const std::int64_t tiles = tiles_over(length, size);
      EXPECT_GE(tiles * size, length);
      EXPECT_LT((tiles - 1) * size, length);
    }
    EXPECT_EQ(tiles_over((std::int64_t{1} << 31) - 1, size), (1u << 31) / size);
  }
}

}  // namespace
}  // namespace reprolab::transpose
