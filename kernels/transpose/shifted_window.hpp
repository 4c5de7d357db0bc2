// Windows for rows of any alignment: a window is 32 elements of an output row and starts at a
// multiple of 32 bytes, which may be a different column in each row. So memory is written in whole
// units of 32 bytes.
#pragma once

#include <cstdint>

#include "kernels/transpose/tile_order.hpp"

namespace reprolab::transpose::shifted {

inline constexpr int window = 32;                 // elements of an output row that a block writes
inline constexpr int columns = 64;                // of input, so rows of output, per block
inline constexpr int unit = 8;                    // elements in 32 bytes
inline constexpr int height = window + unit - 1;  // rows of input that a block loads
inline constexpr int pitch = columns + 1;  // of shared memory; odd, so a column hits all banks
inline constexpr int threads = 256;

/// Number of windows that cover a row of `length` elements, whatever its alignment.
constexpr std::uint32_t windows_over(std::int64_t length) {
  return length == 0 ? 0 : tiles_over(length + unit - 1, window);
}

/// Number of elements by which window `index` of a row starts before `index * window`, if element 0
/// of that row is at the address `row_start`.
constexpr int shift_of(std::uintptr_t row_start) {
  return static_cast<int>(row_start / sizeof(float) % unit);
}

}  // namespace reprolab::transpose::shifted
