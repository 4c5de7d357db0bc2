// NF4, the 4-bit normal float of QLoRA (arXiv 2305.14314), as bitsandbytes 0.50.1 defines it to
// the bit. A weight is a code (0 to 15) that selects one of 16 values in [-1, 1], times the scale
// (absmax) of its block of consecutive weights.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "reference/float16.hpp"

namespace reprolab::reference {

using Nf4Table = std::array<float, 16>;

/// The values of the codes, which a checkpoint repeats as `quant_map`.
inline constexpr Nf4Table standard_table = {-1.0f,
                                            -0.6961928009986877f,
                                            -0.5250730514526367f,
                                            -0.39491748809814453f,
                                            -0.28444138169288635f,
                                            -0.18477343022823334f,
                                            -0.09105003625154495f,
                                            0.0f,
                                            0.07958029955625534f,
                                            0.16093020141124725f,
                                            0.24611230194568634f,
                                            0.33791524171829224f,
                                            0.44070982933044434f,
                                            0.5626170039176941f,
                                            0.7229568362236023f,
                                            1.0f};

/// A weight's code is the number of these midpoints that its value, divided by the scale, exceeds.
/// They lie halfway between neighbouring table values, up to rounding; these exact literals count.
inline constexpr std::array<float, 15> standard_midpoints = {
    -0.8480964004993439f,  -0.6106329262256622f,  -0.4599952697753906f,   -0.33967943489551544f,
    -0.23460740596055984f, -0.13791173323988914f, -0.045525018125772476f, 0.03979014977812767f,
    0.1202552504837513f,   0.2035212516784668f,   0.2920137718319893f,    0.3893125355243683f,
    0.5016634166240692f,   0.6427869200706482f,   0.8614784181118011f};

inline constexpr int min_block_size = 32;
inline constexpr int max_block_size = 4096;

constexpr bool is_block_size(std::int64_t weights) {
  return weights >= min_block_size && weights <= max_block_size && (weights & (weights - 1)) == 0;
}

/// Number of scales for `weights` weights; the last block may be short.
constexpr std::int64_t block_count(std::int64_t weights, int block_size) {
  return weights / block_size + (weights % block_size != 0);
}

/// Number of bytes for `weights` codes: two per byte, element 2j in the high nibble of byte j.
constexpr std::int64_t code_bytes(std::int64_t weights) { return weights / 2 + weights % 2; }

constexpr int code_at(std::span<const std::uint8_t> codes, std::int64_t index) {
  const int byte = codes[static_cast<std::size_t>(index / 2)];
  return index % 2 == 0 ? byte >> 4 : byte & 15;
}

/// Throws std::invalid_argument unless the arrays of codes and scales have these sizes.
void require_nf4_sizes(std::size_t weights, int block_size, std::size_t code_byte_count,
                       std::size_t absmax_count);

/// output[i] = round16(table[code(i)] * absmax[i / block_size]): one fp32 product, to nearest. As
/// on the GPU, subnormal factors and products become zero of the same sign, and NaN is 0x7fff.
/// `codes` [code_bytes(n)], `absmax` [block_count(n)], `output` [n] bits of `type`.
/// Throws std::invalid_argument if the sizes disagree. `threads` <= 0: all hardware threads.
void dequantize(std::span<const std::uint8_t> codes, std::span<const float> absmax,
                const Nf4Table& table, int block_size, WeightType type,
                std::span<std::uint16_t> output, int threads = 0);

/// The inverse, as in bitsandbytes' GPU quantizer: `absmax` is the block's greatest magnitude
/// (subnormals count as zero, NaN is skipped), and the code is the number of midpoints that weight
/// * (1 / absmax) exceeds. A block of zeros gets code 0, which is -1 times 0 = -0.0. If n is odd,
/// the low nibble of the last byte is 7 (0.0). `weights` [n] bits of `type`; sizes as above.
void quantize(std::span<const std::uint16_t> weights, WeightType type, int block_size,
              std::span<std::uint8_t> codes, std::span<float> absmax, int threads = 0);

}  // namespace reprolab::reference
