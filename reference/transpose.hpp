// The transpose on the CPU, and the data to transpose.
#pragma once

#include <cstdint>
#include <span>

namespace reprolab::reference {

/// Shape of a row-major matrix, whose rows lie `stride` >= `columns` elements apart.
struct MatrixShape {
  std::int64_t rows = 0, columns = 0, stride = 0;

  /// Elements from the first of the first row to the last of the last one, with the room between
  /// rows but none behind the last.
  std::int64_t elements() const {
    return rows == 0 || columns == 0 ? 0 : (rows - 1) * stride + columns;
  }
};

/// output[c * out_stride + r] = input[r * shape.stride + c], as bits: NaNs keep theirs. What lies
/// between the rows of `output` is left alone. Throws std::invalid_argument unless both spans hold
/// their matrix and strides are as long as rows.
void transpose(std::span<const std::uint32_t> input, const MatrixShape& shape,
               std::span<std::uint32_t> output, std::int64_t out_stride, int threads = 0);

/// Bits of a finite fp32 value of magnitude below 2, subnormals and zeros of both signs among them.
/// Any 2^31 consecutive indices give 2^31 different ones, so that an element at a wrong place shows
/// whatever the mistake. Additions, products and shifts of integers alone: the same on any machine.
constexpr std::uint32_t distinct_value_bits(std::uint64_t index, std::uint64_t seed) {
  constexpr std::uint32_t mask = 0x7fffffffu;
  // What tells stretches of 2^31 indices, and seeds, apart; then steps that are one to one on 31
  // bits each.
  std::uint64_t stretch = ((index >> 31) + (seed << 33) + 1) * 0x9e3779b97f4a7c15u;
  stretch ^= stretch >> 29;
  std::uint32_t bits =
      (static_cast<std::uint32_t>(index) ^ static_cast<std::uint32_t>(stretch)) & mask;
  bits = (bits * 0x2c1b3c6du) & mask;
  bits ^= bits >> 15;
  bits = (bits * 0x297a2d39u) & mask;
  bits ^= bits >> 16;
  bits = (bits * 0x5851f42du) & mask;
  bits ^= bits >> 15;
  // Without the exponent's highest bit there is no NaN and no infinity.
  return (bits & 0x3fffffffu) | ((bits >> 30) << 31);
}

}  // namespace reprolab::reference
