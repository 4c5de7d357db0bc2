// For tests of ceilings: the bytes that were moved, and those around them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "profiling/ceilings.hpp"
#include "profiling/cuda_check.hpp"

namespace reprolab::profiling {

using Bytes = std::vector<std::uint8_t>;

inline Bytes to_host(const DeviceBuffer& buffer) {
  Bytes bytes(buffer.bytes());
  check(cudaMemcpy(bytes.data(), buffer.data(), bytes.size(), cudaMemcpyDeviceToHost),
        "copying to the host");
  return bytes;
}

inline void fill(const DeviceBuffer& buffer, int value) {
  check(cudaMemset(buffer.data(), value, buffer.bytes()), "filling device memory");
}

inline std::uint8_t pattern_byte(std::uint64_t i) {
  return static_cast<std::uint8_t>(ceilings::pattern_word(i / 4) >> 8 * (i % 4));
}

/// The XOR of the words of the pattern's first bytes; those past the end count as zero.
inline std::uint32_t checksum_of_pattern(std::uint64_t bytes) {
  std::uint32_t sum = 0;
  for (std::uint64_t i = 0; i < bytes; ++i) {
    sum ^= static_cast<std::uint32_t>(pattern_byte(i)) << 8 * (i % 4);
  }
  return sum;
}

inline std::uint32_t word_of(const DeviceBuffer& buffer) {
  std::uint32_t word = 0;
  check(cudaMemcpy(&word, buffer.data(), sizeof word, cudaMemcpyDeviceToHost), "copying a word");
  return word;
}

/// Sizes around every boundary: element, cache line, block, and several blocks; and one for every
/// form of the ceilings (profiling/ceilings.cu), few of them whole panels of tiles.
inline const std::vector<std::uint64_t> sizes = {
    1,       3,       15,      16,      17,       127,      128,     129,    2047,
    2048,    2049,    16383,   16384,   16385,    65536,    70001,   262149, 1048576,
    2200001, 5000011, 6291455, 9437189, 21000016, 26214401, 38800003};
inline constexpr std::uint64_t guard_bytes = 4096;

inline void expect_pattern(const Bytes& bytes, std::uint64_t size) {
  for (std::uint64_t i = 0; i < bytes.size(); ++i) {
    const std::uint8_t expected = i < size ? pattern_byte(i) : 0xcd;
    if (bytes[i] == expected) continue;
    FAIL() << "byte " << i << " of " << size << ": expected " << int{expected} << ", got "
           << int{bytes[i]};
  }
}

}  // namespace reprolab::profiling
