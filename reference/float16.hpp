// The two 16-bit types of weights, as bits, and the rounding between them and fp32. Written from
// IEEE 754 (fp16: 1+5+10 bits; bf16: 1+8+7 bits) on the bits themselves and with single fp32
// operations, so that they depend on no instruction set; the rounding mode must be the default.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace reprolab::reference {

enum class WeightType { fp16, bf16 };

constexpr std::string_view name(WeightType type) {
  return type == WeightType::fp16 ? "fp16" : "bf16";
}

/// The bits of every NaN, in both types: the pattern that the GPU's conversion returns.
inline constexpr std::uint16_t canonical_nan = 0x7fff;

/// A subnormal fp32 value becomes zero of the same sign; every other value is unchanged.
constexpr float flush_subnormal(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
}

/// fp32 to fp16, to nearest, ties to even; magnitudes past 65519.99 become infinity.
constexpr std::uint16_t round_to_fp16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  // Normal results: drop 13 fraction bits and rebias the exponent from 127 to 15.
  const std::uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Subnormal results are multiples of 2^-24, which is exactly the spacing of fp32 at 0.5.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u;
  std::uint32_t result = magnitude < 0x38800000u ? subnormal : normal - (112u << 10);
  result = magnitude >= 0x47800000u ? 0x7c00u : result;
  result |= sign;
  result = magnitude > 0x7f800000u ? canonical_nan : result;
  return static_cast<std::uint16_t>(result);
}

/// fp32 to bf16, to nearest, ties to even.
constexpr std::uint16_t round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? canonical_nan : rounded);
}

/// fp16 to fp32; exact.
constexpr float widen_fp16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  const std::uint32_t rebias = magnitude >= 0x7c00u ? 224u << 23 : 112u << 23;
  const float subnormal = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f;
  const std::uint32_t bits =
      magnitude < 0x400u ? std::bit_cast<std::uint32_t>(subnormal) : (magnitude << 13) + rebias;
  return std::bit_cast<float>(bits | sign);
}

/// bf16 to fp32; exact.
constexpr float widen_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

constexpr std::uint16_t round_to(WeightType type, float value) {
  return type == WeightType::fp16 ? round_to_fp16(value) : round_to_bf16(value);
}

constexpr float widen(WeightType type, std::uint16_t bits) {
  return type == WeightType::fp16 ? widen_fp16(bits) : widen_bf16(bits);
}

}  // namespace reprolab::reference
