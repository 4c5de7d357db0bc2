// Comparison of outputs by their bits, so that NaN equals itself and -0.0 differs from 0.0: with
// the bits or with the interval of each element.
#pragma once

#include <cstdint>
#include <span>

namespace reprolab::reference {

// ---- Distances between floating-point numbers, from their bits alone, on host and device ----

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

// ---- Comparison of arrays ----

struct Comparison {
  std::int64_t mismatches = 0;
  std::int64_t first_mismatch = -1;  ///< Element index; -1 when there is none.
  /// The largest of all mismatches, by the width of the elements; no_distance
  /// if one of them has a NaN. Meaningless if the elements are not floating-point numbers.
  std::uint32_t max_ulps = 0;

  bool equal() const { return mismatches == 0; }
};

/// Whether each element is from `low` to `high`, in numeric order.
Comparison compare_within(std::span<const std::uint16_t> low, std::span<const std::uint16_t> high,
                          std::span<const std::uint16_t> actual);
Comparison compare_within(std::span<const std::uint32_t> low, std::span<const std::uint32_t> high,
                          std::span<const std::uint32_t> actual);

/// Whether each element has the bits of `expected`.
inline Comparison compare_bits(std::span<const std::uint16_t> expected,
                               std::span<const std::uint16_t> actual) {
  return compare_within(expected, expected, actual);
}
inline Comparison compare_bits(std::span<const std::uint32_t> expected,
                               std::span<const std::uint32_t> actual) {
  return compare_within(expected, expected, actual);
}
Comparison compare_bits(std::span<const float> expected, std::span<const float> actual);

/// Tests the comparison: in arrays of 2-byte and of 4-byte elements, plants a flipped bit, a NaN, a
/// -0.0 for a 0.0, an unwritten element and a value beyond either end of an interval, at the first
/// and last elements and at the boundaries between chunks; throws std::logic_error if the
/// comparison misses one, reports one that does not exist or gives a wrong distance. Every program
/// that verifies calls this first.
void self_test_comparison();

}  // namespace reprolab::reference
