// The sweep's two kinds of problems: so many bytes moved, and nothing computed.
#pragma once

#include <array>
#include <cstdint>

#include "profiling/ceilings.hpp"

namespace reprolab::ceilings {

using profiling::ceilings::Traffic;

/// As many bytes are read as written: the output is the input.
struct Copy : Traffic {
  static constexpr const char* family = "copy";
  static constexpr std::uint64_t read_of(std::uint64_t write_bytes) { return write_bytes; }
};

/// The bytes of an NF4 dequantization to 16 bits, with a scale for 64 weights: 9 read for 32
/// written, 8 of them codes. The output is the pattern of the ceilings.
struct Mixed : Traffic {
  static constexpr const char* family = "mixed";
  static constexpr std::uint64_t read_of(std::uint64_t write_bytes) { return write_bytes / 32 * 9; }
};

/// Output sizes of the sweep, from a small matrix to far above the size of a cache, closest where
/// one form gives way to another. 448 MiB is a large layer's: 28672 x 8192 weights.
inline constexpr std::array<std::uint64_t, 11> sizes_mib = {1,  2,  4,   6,   8,   16,
                                                            20, 32, 128, 448, 3072};

}  // namespace reprolab::ceilings
