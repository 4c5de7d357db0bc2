// The bank conflicts that the kernel files state, counted with the kernels' own index functions.
#include "tests/kernels/transpose/bank_conflicts.hpp"

#include <gtest/gtest.h>

#include <string>

#include "kernels/transpose/shifted_window.hpp"
#include "kernels/transpose/swizzle.hpp"

namespace reprolab::transpose {
namespace {

TEST(Ways, CountsTheWordsOfTheFullestBank) {
  const auto ways_of = [](auto index) { return ways(of_warp(0, index)); };
  EXPECT_EQ(ways_of([](int lane) { return lane; }), 1);
  EXPECT_EQ(ways_of([](int lane) { return 2 * lane; }), 2);
  EXPECT_EQ(ways_of([](int lane) { return 32 * lane; }), 32);
  EXPECT_EQ(ways_of([](int lane) { return 33 * lane; }), 1);
  EXPECT_EQ(ways_of([](int lane) { return 8 * lane; }), 8);
}

TEST(Ways, OneWordForAllLanesIsNoConflict) {
  EXPECT_EQ(ways(of_warp(0, [](int) { return 7; })), 1);
  EXPECT_EQ(ways(of_warp(0, [](int lane) { return lane % 2 * 32; })), 2);
}

TEST(Ways, Float4sGoInQuartersOfAWarp) {
  const auto ways_of = [](auto index) { return ways_of_float4s(of_warp(0, index)); };
  EXPECT_EQ(ways_of([](int lane) { return lane; }), 1);
  EXPECT_EQ(ways_of([](int lane) { return 2 * lane; }), 2);
  EXPECT_EQ(ways_of([](int lane) { return 8 * lane; }), 8);
  EXPECT_EQ(ways_of([](int lane) { return lane % 8 + lane / 8 * 64; }), 1);
  EXPECT_EQ(ways_of([](int lane) { return lane == 31 ? 0 : lane; }), 2)
      << "the last quarter counts";
}

// Kernels that move one element per thread: `in` is where a thread loads, `out` where it stores.
int single_in(int thread, bool swizzle) {
  const auto [row, column] = single_element(thread);
  return swizzle ? flat_swizzled(row, column) : flat(row, column);
}

int single_out(int thread, bool swizzle) {
  const auto [row, column] = single_element(thread);
  return swizzle ? flat_swizzled(column, row) : flat(column, row);
}

constexpr int tile_elements = tma_tile * tma_tile;

TEST(TmaNaive, AWarpsStoresAllHitOneBankAndItsLoadsNeverConflict) {
  for (int first = 0; first < tile_elements; first += warp) {
    const auto loads = of_warp(first, [](int thread) { return single_in(thread, false); });
    const auto stores = of_warp(first, [](int thread) { return single_out(thread, false); });
    EXPECT_EQ(ways(loads), 1) << "threads from " << first;
    EXPECT_EQ(ways(stores), 32) << "threads from " << first;
    EXPECT_EQ(words_by_bank(stores).size(), 1u) << "threads from " << first;
  }
}

TEST(TmaSwizzle, AWarpsStoresHitEightBanksFourTimesAndItsLoadsNeverConflict) {
  for (int first = 0; first < tile_elements; first += warp) {
    const auto loads = of_warp(first, [](int thread) { return single_in(thread, true); });
    const auto stores = of_warp(first, [](int thread) { return single_out(thread, true); });
    EXPECT_EQ(ways(loads), 1) << "threads from " << first;
    EXPECT_EQ(ways(stores), 4) << "threads from " << first;
    EXPECT_EQ(words_by_bank(stores).size(), 8u) << "threads from " << first;
  }
}

/// A tile shape that column_walk or tiled uses.
struct VectorTile {
  int rows, columns, threads;

  std::string name() const { return std::to_string(rows) + "x" + std::to_string(columns); }
};

constexpr VectorTile vector_tiles[] = {{64, 64, 256}, {16, 128, 128}};

TEST(VectorTile, StoresToSharedMemoryNeverConflict) {
  for (const VectorTile& tile : vector_tiles) {
    const int down = tile.rows / 4, across = tile.columns / 4;
    for (int first = 0; first < down * across; first += warp) {
      for (int k = 0; k < 4; ++k) {
        const auto stores = of_warp(
            first, [&](int at) { return chunk_of(at % across * 4 + k, at / across, down); });
        EXPECT_EQ(ways_of_float4s(stores), 1)
            << tile.name() << ", blocks of 4 x 4 from " << first << ", row " << k << " of each";
      }
    }
  }
}

TEST(VectorTile, LoadsFromSharedMemoryNeverConflict) {
  for (const VectorTile& tile : vector_tiles) {
    const int down = tile.rows / 4;
    for (int first = 0; first < tile.columns * down; first += warp) {
      const auto loads =
          of_warp(first, [&](int at) { return chunk_of(at / down, at % down, down); });
      EXPECT_EQ(ways_of_float4s(loads), 1) << tile.name() << ", float4s from " << first;
    }
  }
}

TEST(ShiftedWindow, StoresToSharedMemoryNeverConflict) {
  for (int first = 0; first < shifted::threads; first += warp) {
    const auto stores = of_warp(first, [](int thread) {
      return thread / shifted::columns * shifted::pitch + thread % shifted::columns;
    });
    EXPECT_EQ(ways(stores), 1) << "threads from " << first;
  }
}

TEST(ShiftedWindow, AColumnOfTheTileHitsAllBanks) {
  for (int column = 0; column < shifted::columns; ++column) {
    for (int first_row = 0; first_row + warp <= shifted::height; ++first_row) {
      const auto loads = of_warp(first_row, [&](int row) { return row * shifted::pitch + column; });
      EXPECT_EQ(ways(loads), 1) << "column " << column << ", rows from " << first_row;
    }
  }
}

/// The worst over the warps and steps of a block, for an output whose rows are `stride` elements
/// apart and whose first row begins `start` elements past a multiple of 32 bytes.
int worst_load(int start, int stride) {
  constexpr int lanes = shifted::window / 4;
  int worst = 0;
  for (int first = 0; first < shifted::threads; first += warp) {
    for (int k = 0; k < 4; ++k) {
      const auto loads = of_warp(first, [&](int thread) {
        const int out_row = thread / lanes;
        const auto row_start = static_cast<std::uintptr_t>(start + out_row * stride) * 4;
        const int in_window = thread % lanes * 4 - shifted::shift_of(row_start);
        return (shifted::unit - 1 + in_window + k) * shifted::pitch + out_row;
      });
      worst = std::max(worst, ways(loads));
    }
  }
  return worst;
}

/// A warp loads from four rows, each shifted according to its own start.
TEST(ShiftedWindow, LoadsConflictAsTheRowsShiftsTell) {
  constexpr int worst_of_stride[] = {1, 4, 1, 2};  // by the stride modulo 4
  for (int start = 0; start < shifted::unit; ++start) {
    for (int stride = 1; stride < 300; ++stride) {
      EXPECT_EQ(worst_load(start, stride), worst_of_stride[stride % 4])
          << "start " << start << ", stride " << stride;
    }
  }
}

}  // namespace
}  // namespace reprolab::transpose
