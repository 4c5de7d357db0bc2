// Checks that argument sizes agree, before any element is touched; if not, the caller is wrong.
#pragma once

#include <fmt/format.h>

#include <stdexcept>

#include "reference/nf4/nf4.hpp"

namespace reprolab::reference {

inline void require_nf4_sizes(std::size_t weights, int block_size, std::size_t code_byte_count,
                              std::size_t absmax_count) {
  const auto n = static_cast<std::int64_t>(weights);
  if (!is_block_size(block_size)) {
    throw std::invalid_argument(
        fmt::format("block size {} is not a power of two from 32 to 4096", block_size));
  }
  if (static_cast<std::int64_t>(code_byte_count) != code_bytes(n)) {
    throw std::invalid_argument(fmt::format("{} weights need {} bytes of codes, not {}", n,
                                            code_bytes(n), code_byte_count));
  }
  if (static_cast<std::int64_t>(absmax_count) != block_count(n, block_size)) {
    throw std::invalid_argument(fmt::format("{} weights in blocks of {} need {} scales, not {}", n,
                                            block_size, block_count(n, block_size), absmax_count));
  }
}

/// Number of blocks that one thread takes at a time: about 64 Ki weights.
constexpr std::int64_t blocks_per_chunk(int block_size) { return 65536 / block_size; }

}  // namespace reprolab::reference
