// The number of blocks of a launch, in 64 bits, and its maximum.
#pragma once

#include <cstdint>

namespace reprolab {

/// CUDA C++ Programming Guide, compute capabilities: the x dimension of a grid.
inline constexpr std::int64_t max_blocks = (std::int64_t{1} << 31) - 1;

/// Number of blocks that cover `count` elements, `per_block` each.
constexpr std::int64_t blocks_over(std::int64_t count, std::int64_t per_block) {
  return count / per_block + (count % per_block != 0 ? 1 : 0);
}

/// The grid of `blocks` blocks. `supports` refuses a problem with more than `max_blocks`; here the
/// number is clamped to one more, which no launch accepts.
constexpr unsigned grid_of(std::int64_t blocks) {
  return static_cast<unsigned>(blocks <= max_blocks ? blocks : max_blocks + 1);
}

}  // namespace reprolab
