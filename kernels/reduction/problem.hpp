// The problem that a sum's kernel is given: non-owning views of device memory.
#pragma once

#include <cstdint>

namespace reprolab::reduction {

/// output[0] = the sum of input[i] for all i < n, modulo 2^32: the bits of a sum of 32-bit
/// integers, signed or not, in any order of additions. `n` may be 0.
struct Problem {
  static constexpr const char* family = "reduction";  ///< Its folder.

  const std::uint32_t* input = nullptr;  ///< [n], 4-byte aligned.
  std::uint32_t* output = nullptr;       ///< [1]
  std::int64_t n = 0;
  void* workspace = nullptr;  ///< Kernel::workspace_bytes(), 16-byte aligned, with any content.
};

}  // namespace reprolab::reduction
