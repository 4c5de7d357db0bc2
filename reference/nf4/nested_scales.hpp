// Double quantization: the scales of NF4 blocks, themselves quantized to 8 bits (QLoRA,
// arXiv 2305.14314, section 3; bits as bitsandbytes 0.50.1 writes them).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace reprolab::reference {

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
void dequantize_scales(const NestedScales& nested, std::span<float> absmax, int threads = 0);

/// Subtracts `offset` from each scale and quantizes the rest to the nearest value of `map` times
/// the greatest magnitude in each group of 256; a tie goes to the even code.
NestedScales quantize_scales(std::span<const float> absmax, const ScaleMap& map, float offset,
                             int threads = 0);

/// The same with the standard map and the mean as offset. The order in which a GPU sums the mean is
/// not part of the format, so the last bit of a stored offset may differ from ours.
NestedScales quantize_scales(std::span<const float> absmax, int threads = 0);

}  // namespace reprolab::reference
