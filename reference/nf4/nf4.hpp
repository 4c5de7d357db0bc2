// NF4, the 4-bit normal float of QLoRA (arXiv 2305.14314), as bitsandbytes 0.50.1 defines it to
// the bit. A weight is a code (0 to 15) that selects one of 16 values in [-1, 1], times the scale
// (absmax) of its block of consecutive weights.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

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
/// Throws std::invalid_argument if the sizes disagree.
void dequantize(std::span<const std::uint8_t> codes, std::span<const float> absmax,
                const Nf4Table& table, int block_size, WeightType type,
                std::span<std::uint16_t> output);

/// The inverse, as in bitsandbytes' GPU quantizer: `absmax` is the block's greatest magnitude
/// (subnormals count as zero, NaN is skipped), and the code is the number of midpoints that weight
/// * (1 / absmax) exceeds. A block of zeros gets code 0, which is -1 times 0 = -0.0. If n is odd,
/// the low nibble of the last byte is 7 (0.0). `weights` [n] bits of `type`; sizes as above.
void quantize(std::span<const std::uint16_t> weights, WeightType type, int block_size,
              std::span<std::uint8_t> codes, std::span<float> absmax);

// ---- Double quantization: the scales of NF4 blocks, themselves quantized to 8 bits (QLoRA,
// section 3; bits as bitsandbytes 0.50.1 writes them) ----

using ScaleMap = std::array<float, 256>;

/// Scales per second-level scale, as bitsandbytes writes them.
inline constexpr int standard_nested_block_size = 256;

/// absmax[b] = round(round(map[codes[b]] * absmax[b / block_size]) + offset): two roundings.
struct NestedScales {
  std::vector<std::uint8_t> codes;  ///< [blocks]
  ScaleMap map{};                   ///< Ascending, -0.993 to 1.
  std::vector<float> absmax;        ///< [ceil(blocks / block_size)]
  float offset = 0;
  int block_size = standard_nested_block_size;  ///< Scales per second-level scale.
};

/// The signed dynamic map: for the decades 10^-6 .. 10^0 there are 1, 2, 4 .. 64 values midway
/// between evenly spaced boundaries on [0.1, 1], with both signs; plus 0 and 1.
ScaleMap dynamic_map();

/// Dequantizes scales to fp32. A subnormal product becomes zero of the same sign. `absmax` has
/// nested.codes.size() elements; throws std::invalid_argument if sizes disagree.
void dequantize_scales(const NestedScales& nested, std::span<float> absmax);

/// Subtracts `offset` from each scale and quantizes the rest to the nearest value of `map` times
/// the greatest magnitude in each group of 256; a tie goes to the even code.
NestedScales quantize_scales(std::span<const float> absmax, const ScaleMap& map, float offset);

/// The same with the standard map and the mean as offset. The order in which a GPU sums the mean is
/// not part of the format, so the last bit of a stored offset may differ from ours.
NestedScales quantize_scales(std::span<const float> absmax);

// ---- Weights in memory ----

/// One quantized weight.
struct QuantizedTensor {
  std::string name{};
  std::vector<std::int64_t> shape{};  ///< Empty when unknown.
  std::int64_t n = 0;                 ///< Number of weights.
  int block_size = 64;
  WeightType type = WeightType::fp16;  ///< Type of the dequantized weights.
  Nf4Table table = standard_table;     ///< The values of the codes.
  std::vector<std::uint8_t> codes{};   ///< [code_bytes(n)]
  std::vector<float> absmax{};         ///< [block_count(n)]; decoded from `nested` if that is set.
  std::optional<NestedScales> nested{};  ///< The scales as stored, when doubly quantized.
};

/// All of a tensor's weights, dequantized by the reference: [tensor.n] bits of `tensor.type`.
inline std::vector<std::uint16_t> dequantize(const QuantizedTensor& tensor) {
  std::vector<std::uint16_t> output(static_cast<std::size_t>(tensor.n));
  dequantize(tensor.codes, tensor.absmax, tensor.table, tensor.block_size, tensor.type, output);
  return output;
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): every bit depends on every bit.
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Weights for measurements: normal values from a counter, so that any part of a matrix can be made
/// separately, on any machine, with the same bits.
///
/// Bits of fp16 or bf16 values with mean 0. Element i of `weights` depends only on `seed` and on
/// `first_index + i`. Each is the sum of twelve uniform values, corrected to a normal one by
/// Teichroew's polynomial (Knuth, TAOCP 2, 3.4.1), rounded to `type`: additions and products only,
/// so no mathematics library can change a bit.
void normal_weights(std::uint64_t seed, std::uint64_t first_index, WeightType type,
                    float standard_deviation, std::span<std::uint16_t> weights);

}  // namespace reprolab::reference
