// The order in which blocks take the tiles of a matrix, the positions of a tile's elements in
// shared memory, and the elements that a thread moves: the index arithmetic of the kernels, as
// plain constexpr C++, so that it is tested without a GPU.
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
    const std::uint32_t round = block / at_once;
    return {round % rows, round / rows + block % at_once * spacing};
  }
};

/// The tile of the post's kernels: rows of 32 fp32 elements, which are 128 bytes.
inline constexpr int tma_tile = 32;

/// Column in shared memory of element (row, column) of a tile that the tensor memory accelerator
/// swizzles by 128 bytes (CUDA C++ Programming Guide, "Shared memory bank swizzling"): the index of
/// its 16-byte chunk, XORed with the row modulo 8. `column` may exceed the tile's 32 columns and
/// then continues in the next row, as in the post's arithmetic, which computes on flat indices.
/// Unsigned, as are the threads below: quotients and remainders are then the post's shifts and
/// masks.
constexpr int swizzled(unsigned row, unsigned column) {
  const unsigned chunk = column / 4 % 8, swizzling_row = row + column / tma_tile;
  return static_cast<int>((chunk ^ swizzling_row) % 8 * 4 + column % 4);
}

/// Flat index of an element in shared memory, without and with the swizzle.
constexpr int flat(int row, int column) { return row * tma_tile + column; }
constexpr int flat_swizzled(int row, int column) { return flat(row, swizzled(row, column)); }

/// An element of the tile.
struct Element {
  int row, column;
};

/// One element per thread, 1024 threads.
constexpr Element single_element(unsigned thread) {
  return {static_cast<int>(thread / tma_tile), static_cast<int>(thread % tma_tile)};
}

/// Eight elements per thread, 128 threads: element `j` of a thread.
inline constexpr int batch = 8;
constexpr Element batched_element(unsigned thread, int j) {
  return {static_cast<int>(thread / (tma_tile / batch)),
          static_cast<int>(thread % (tma_tile / batch)) * batch + j};
}

/// Element that a thread of the published batched kernel in Mojo moves in its step `j`: the places
/// in shared memory that it reads and writes. Threads keep the columns of the kernel with 1024
/// threads, so their batches overlap, and only inside the swizzle is the step added to the column.
struct Move {
  int from, to;
};
constexpr Move published_move(unsigned thread, int j) {
  const auto [row, column] = single_element(thread);
  return {flat(row, swizzled(row, column + j)), flat(column, swizzled(column + j, row))};
}

/// Place in shared memory, in float4s, of float4 number `chunk` of a row of a transposed tile. A
/// row holds `chunks` float4s: a power of two, at least 4. Eight lanes that store one chunk of the
/// rows 0, 4, 8, ..., 28, and eight that load neighbouring chunks, hit each of the 32 banks once.
constexpr int chunk_of(int row, int chunk, int chunks) {
  return (row * chunks + chunk) ^ (row / 4 % 8);
}

}  // namespace reprolab::transpose
