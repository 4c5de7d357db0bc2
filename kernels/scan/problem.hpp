// The problem that a scan's kernel is given: non-owning views of device memory.
#pragma once

#include <cstdint>

namespace reprolab::scan {

/// output[i] = the sum of input[k], modulo 2^32, for all k of i's segment up to and with i: a
/// prefix sum that restarts with every segment; of the whole vector if there is one segment.
struct Problem {
  static constexpr const char* family = "scan";  ///< Its folder.

  const std::uint32_t* input = nullptr;  ///< [segments][segment], 4-byte aligned.
  std::uint32_t* output = nullptr;       ///< The same.
  std::int64_t segments = 0;
  std::int64_t segment = 0;   ///< Words of each.
  void* workspace = nullptr;  ///< Kernel::workspace_bytes(), 16-byte aligned, with any content.
};

}  // namespace reprolab::scan
