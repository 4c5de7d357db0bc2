// Comparison of outputs by their bits, so that NaN equals itself and -0.0 differs from 0.0: with
// the bits or with the interval of each element.
#pragma once

#include <cstdint>
#include <span>

namespace reprolab::reference {

struct Comparison {
  std::int64_t mismatches = 0;
  std::int64_t first_mismatch = -1;  ///< Element index; -1 when there is none.
  /// The largest of all mismatches, by the width of the elements (reference/ulps.hpp); no_distance
  /// if one of them has a NaN. Meaningless if the elements are not floating-point numbers.
  std::uint32_t max_ulps = 0;

  bool equal() const { return mismatches == 0; }
};

/// Whether each element is from `low` to `high`, in numeric order (reference/ulps.hpp).
Comparison compare_within(std::span<const std::uint16_t> low, std::span<const std::uint16_t> high,
                          std::span<const std::uint16_t> actual, int threads = 0);
Comparison compare_within(std::span<const std::uint32_t> low, std::span<const std::uint32_t> high,
                          std::span<const std::uint32_t> actual, int threads = 0);

/// Whether each element has the bits of `expected`.
inline Comparison compare_bits(std::span<const std::uint16_t> expected,
                               std::span<const std::uint16_t> actual, int threads = 0) {
  return compare_within(expected, expected, actual, threads);
}
inline Comparison compare_bits(std::span<const std::uint32_t> expected,
                               std::span<const std::uint32_t> actual, int threads = 0) {
  return compare_within(expected, expected, actual, threads);
}
Comparison compare_bits(std::span<const float> expected, std::span<const float> actual,
                        int threads = 0);

/// Tests the comparison: in arrays of 2-byte and of 4-byte elements, plants a flipped bit, a NaN, a
/// -0.0 for a 0.0, an unwritten element and a value beyond either end of an interval, at the first
/// and last elements and at the boundaries between threads; throws std::logic_error if the
/// comparison misses one, reports one that does not exist or gives a wrong distance. Every program
/// that verifies calls this first.
void self_test_comparison(int threads = 0);

}  // namespace reprolab::reference
