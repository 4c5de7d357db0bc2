// The order in which the blocks of a grid take the tiles of a matrix. On a GPU the blocks run in
// about the order of their index, so this order decides what is read and written at the same time.
#pragma once

#include <cstdint>

namespace reprolab::transpose {

/// Position of a tile in the input, counted in tiles.
struct Tile {
  std::uint32_t row, column;
};

/// Number of tiles of `size` that cover `length` elements.
constexpr std::uint32_t tiles_over(std::int64_t length, int size) {
  return static_cast<std::uint32_t>((length + size - 1) / size);
}

/// Row by row: neighbouring blocks read neighbouring addresses.
struct AcrossRows {
  static constexpr Tile tile(std::uint32_t block, std::uint32_t, std::uint32_t columns) {
    return {block / columns, block % columns};
  }
};

/// Down the columns: neighbouring blocks write neighbouring addresses. Blocks alternate between
/// `at_once` evenly spaced columns, for strides that are a power of two: there the reads of one
/// column have the same low address bits in every row, which loads some parts of the memory more
/// than others.
template <std::uint32_t at_once>
struct DownColumns {
  static constexpr Tile tile(std::uint32_t block, std::uint32_t rows, std::uint32_t columns) {
    const std::uint32_t spacing = columns / at_once;
    const std::uint32_t in_turns = spacing * at_once * rows;  // blocks
    if (block >= in_turns) {  // fewer than `at_once` columns are left
      const std::uint32_t left = block - in_turns;
      return {left % rows, spacing * at_once + left / rows};
    }
    const std::uint32_t watchdog = block / at_once;
    return {watchdog % rows, watchdog / rows + block % at_once * spacing};
  }
};

}  // namespace reprolab::transpose
