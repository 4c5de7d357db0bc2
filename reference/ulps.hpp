// Distances between floating-point numbers, from their bits alone: the same on host and device.
#pragma once

#include <cstdint>

namespace reprolab::reference {

/// The distance from a NaN to any value: more than any other distance.
inline constexpr std::uint32_t no_distance = 0xffffffffu;

/// Steps from one value of the type to the next (ULPs, units in the last place) between `a` and
/// `b`, whatever lies between them. Zeros of different sign are 0 steps apart, the greatest number
/// and infinity 1. `infinity` has the bits of the type's infinity: values beyond it are NaNs.
template <class Bits>
constexpr std::uint32_t distance_in_ulps(Bits a, Bits b, Bits infinity) {
  constexpr auto sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const std::uint32_t from = a & static_cast<Bits>(~sign), to = b & static_cast<Bits>(~sign);
  if (from > infinity || to > infinity) return no_distance;
  if (((a ^ b) & sign) != 0) return from + to;
  return from < to ? to - from : from - to;
}

/// The same if only the width of the type is known. For 2-byte types fp16's infinity is used, which
/// is the smaller one: a bf16 from 2.7e36 on counts as a NaN.
constexpr std::uint32_t distance_in_ulps(std::uint16_t a, std::uint16_t b) {
  return distance_in_ulps<std::uint16_t>(a, b, 0x7c00);
}
constexpr std::uint32_t distance_in_ulps(std::uint32_t a, std::uint32_t b) {
  return distance_in_ulps<std::uint32_t>(a, b, 0x7f800000);
}

/// The bits as an integer in the order of the numbers: -0.0 comes before 0.0, and NaNs lie beyond
/// the infinities.
template <class Bits>
constexpr Bits in_order(Bits bits) {
  constexpr auto sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  return static_cast<Bits>((bits & sign) != 0 ? ~bits : bits | sign);
}

/// Whether `actual` is from `low` to `high`, both included; if the two are equal, whether it has
/// the same bits.
template <class Bits>
constexpr bool is_within(Bits low, Bits high, Bits actual) {
  return in_order(low) <= in_order(actual) && in_order(actual) <= in_order(high);
}

/// The end of the interval that is nearer to `actual`, which is outside.
template <class Bits>
constexpr Bits nearer_end(Bits low, Bits high, Bits actual) {
  return in_order(actual) < in_order(low) ? low : high;
}

template <class Bits>
constexpr std::uint32_t distance_outside(Bits low, Bits high, Bits actual) {
  return distance_in_ulps(nearer_end(low, high, actual), actual);
}

}  // namespace reprolab::reference
