// The sweep's three kinds of problems: bytes moved, nothing computed.
#pragma once

#include <array>
#include <cstdint>

#include "profiling/ceilings.hpp"

namespace reprolab::ceilings {

using profiling::ceilings::Traffic;

/// A copy: equally many bytes are read and written.
struct Copy : Traffic {
  static constexpr const char* family = "copy";
  static constexpr const char* ceiling = "copy_kernel";  ///< The ceiling in harness/ceilings.hpp.
  static constexpr const char* moves = "Copies: as much read as written";
  static constexpr std::uint64_t read_of(std::uint64_t write_bytes) { return write_bytes; }
};

/// Reads this many bytes and writes the ceilings' pattern.
template <unsigned ReadOf32>
struct Mixture : Traffic {
  static constexpr unsigned read_of_32 = ReadOf32;
  static constexpr std::uint64_t read_of(std::uint64_t write_bytes) {
    return write_bytes / 32 * ReadOf32;
  }
};

/// The bytes of an NF4 dequantization to 16 bits, with a scale for 64 weights: 9 read for 32
/// written, 8 of them codes.
struct Mixed : Mixture<9> {
  static constexpr const char* family = "mixed";
  static constexpr const char* ceiling = "same_bytes";
  static constexpr const char* moves = "A dequantization's bytes: 9 read for 32 written";
};

/// The bytes of a transposition: equally many read and written, at different places.
struct Even : Mixture<32> {
  static constexpr const char* family = "even";
  static constexpr const char* ceiling = "same_bytes";
  static constexpr const char* moves =
      "A transposition's bytes: as much read as written, elsewhere";
};

/// Output sizes of the sweep, from a small matrix to far above the size of a cache, most dense
/// where the fastest form changes. 448 MiB is a large layer's: 28672 x 8192 weights.
inline constexpr std::array<std::uint64_t, 11> sizes_mib = {1,  2,  4,   6,   8,   16,
                                                            20, 32, 128, 448, 3072};

}  // namespace reprolab::ceilings
