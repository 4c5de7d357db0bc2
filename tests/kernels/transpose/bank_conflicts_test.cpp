// The bank conflicts that the kernel files state, counted with the kernels' own index functions.
// Shared memory has 32 banks of 4 bytes, each of which gives one word at a time (CUDA C++
// Programming Guide, "Shared memory").
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "kernels/transpose/shifted_window.hpp"
#include "kernels/transpose/swizzle.hpp"

namespace reprolab::transpose {
namespace {

constexpr int banks = 32, warp = 32;
using Words = std::vector<int>;  ///< Accessed by the lanes, counted from a multiple of 128 bytes.

/// The words of each bank; lanes that access the same word share it.
std::map<int, std::set<int>> words_by_bank(const Words& words) {
  std::map<int, std::set<int>> by_bank;
  for (const int word : words) by_bank[word % banks].insert(word);
  return by_bank;
}

/// The maximum number of words from one bank: 1 without a conflict, n for an n-way conflict.
int ways(const Words& words) {
  std::size_t most = 0;
  for (const auto& [bank, wanted] : words_by_bank(words)) most = std::max(most, wanted.size());
  return static_cast<int>(most);
}

/// Accesses of the 32 lanes of a warp; `index` is a function of the thread.
template <class Index>
Words of_warp(int first_thread, Index index) {
  Words words;
  for (int lane = 0; lane < warp; ++lane) words.push_back(index(first_thread + lane));
  return words;
}

/// The same for accesses of 16 bytes, which are served a quarter of a warp at a time: the worst
/// quarter. `index` is in units of 16 bytes.
template <class Index>
int ways_of_float4s(int first_thread, Index index) {
  int worst = 0;
  for (int quarter = 0; quarter < warp; quarter += 8) {
    Words words;
    for (int lane = quarter; lane < quarter + 8; ++lane) {
      for (int i = 0; i < 4; ++i) words.push_back(4 * index(first_thread + lane) + i);
    }
    worst = std::max(worst, ways(words));
  }
  return worst;
}

TEST(Ways, CountsTheWordsOfTheFullestBank) {
  EXPECT_EQ(ways(of_warp(0, [](int lane) { return 32 * lane; })), 32);
  EXPECT_EQ(ways(of_warp(0, [](int lane) { return lane % 2 * 32; })), 2)
      << "one word for all threads does not conflict";
  EXPECT_EQ(ways_of_float4s(0, [](int lane) { return lane % 8 + lane / 8 * 64; }), 1);
  EXPECT_EQ(ways_of_float4s(0, [](int lane) { return lane == 31 ? 0 : lane; }), 2)
      << "the last quarter counts";
}

/// Kernels that move one element per thread. Plain, all stores of a warp hit one bank; swizzled,
/// eight banks four times.
TEST(TmaKernels, LoadWithoutConflictAndStoreAsTheyState) {
  for (const bool swizzle : {false, true}) {
    const auto place = [&](int row, int column) {
      return swizzle ? flat_swizzled(row, column) : flat(row, column);
    };
    for (int first = 0; first < tma_tile * tma_tile; first += warp) {
      const auto loads = of_warp(first, [&](int thread) {
        const auto [row, column] = single_element(thread);
        return place(row, column);
      });
      const auto stores = of_warp(first, [&](int thread) {
        const auto [row, column] = single_element(thread);
        return place(column, row);
      });
      EXPECT_EQ(ways(loads), 1) << "threads from " << first;
      EXPECT_EQ(ways(stores), swizzle ? 4 : 32) << "threads from " << first;
      EXPECT_EQ(words_by_bank(stores).size(), swizzle ? 8u : 1u) << "threads from " << first;
    }
  }
}

/// The tile shapes that column_walk and tiled use.
TEST(VectorTile, NeverConflictsInSharedMemory) {
  for (const auto& [rows, columns] : {std::pair{64, 64}, {16, 128}}) {
    const int down = rows / 4, across = columns / 4;
    for (int first = 0; first < down * across; first += warp) {
      for (int k = 0; k < 4; ++k) {
        EXPECT_EQ(
            ways_of_float4s(
                first, [&](int at) { return chunk_of(at % across * 4 + k, at / across, down); }),
            1)
            << rows << "x" << columns << ", stores from " << first << ", row " << k;
      }
    }
    for (int first = 0; first < columns * down; first += warp) {
      EXPECT_EQ(
          ways_of_float4s(first, [&](int at) { return chunk_of(at / down, at % down, down); }), 1)
          << rows << "x" << columns << ", loads from " << first;
    }
  }
}

TEST(ShiftedWindow, StoresRowsAndLoadsAColumnOfTheTileWithoutConflict) {
  for (int first = 0; first < shifted::threads; first += warp) {
    EXPECT_EQ(ways(of_warp(first,
                           [](int thread) {
                             return thread / shifted::columns * shifted::pitch +
                                    thread % shifted::columns;
                           })),
              1)
        << "threads from " << first;
  }
  for (int column = 0; column < shifted::columns; ++column) {
    for (int first_row = 0; first_row + warp <= shifted::height; ++first_row) {
      EXPECT_EQ(ways(of_warp(first_row, [&](int row) { return row * shifted::pitch + column; })), 1)
          << "column " << column << ", rows from " << first_row;
    }
  }
}

}  // namespace
}  // namespace reprolab::transpose
