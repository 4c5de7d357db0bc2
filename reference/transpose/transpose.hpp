// The transpose on the CPU, and the data to transpose.
#pragma once

#include <cstdint>
#include <span>

namespace reprolab::reference {

/// Shape of a row-major matrix, whose rows start `stride` >= `columns` elements apart.
struct MatrixShape {
  std::int64_t rows = 0, columns = 0, stride = 0;

  /// Number of elements from the first of the first row to the last of the last row, including the
  /// padding between rows, but none after the last row.
  std::int64_t elements() const {
    return rows == 0 || columns == 0 ? 0 : (rows - 1) * stride + columns;
  }
};

/// output[c * out_stride + r] = input[r * shape.stride + c], as bits, so that NaNs keep theirs. The
/// padding between the rows of `output` is not written. Throws std::invalid_argument unless both
/// spans hold their matrix and strides are at least as long as rows.
void transpose(std::span<const std::uint32_t> input, const MatrixShape& shape,
               std::span<std::uint32_t> output, std::int64_t out_stride);

/// A permutation of the 31-bit numbers.
constexpr std::uint32_t permute_31_bits(std::uint32_t bits) {
  constexpr std::uint32_t mask = 0x7fffffffu;
  bits = (bits * 0x2c1b3c6du) & mask;
  bits ^= bits >> 15;
  bits = (bits * 0x297a2d39u) & mask;
  bits ^= bits >> 16;
  bits = (bits * 0x5851f42du) & mask;
  return bits ^ bits >> 15;
}

/// Bits of a finite fp32 value of magnitude below 2, which may be subnormal. Within each range of
/// 2^31 indices that starts at a multiple of 2^31, all values differ, so that any misplaced element
/// is detected; the first value of a range is -0.0. Integer arithmetic only: the same on any
/// machine.
constexpr std::uint32_t distinct_value_bits(std::uint64_t index, std::uint64_t seed) {
  std::uint64_t stretch = ((index >> 31) + (seed << 33) + 1) * 0x9e3779b97f4a7c15u;
  stretch ^= stretch >> 29;
  const std::uint32_t offset = static_cast<std::uint32_t>(stretch) & 0x7fffffffu;
  const std::uint32_t place = static_cast<std::uint32_t>(index) & 0x7fffffffu;
  constexpr std::uint32_t sign = 0x40000000u;  // sign among the 31 bits
  const std::uint32_t bits = permute_31_bits(place ^ offset) ^ permute_31_bits(offset) ^ sign;
  // Clearing the exponent's highest bit excludes NaN and infinity.
  return (bits & 0x3fffffffu) | ((bits & sign) << 1);
}

}  // namespace reprolab::reference
