#include "reference/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <vector>

#include "reference/parallel.hpp"

namespace reprolab::reference {
namespace {

constexpr std::int64_t chunk_elements = 1 << 18;

/// `low` and `high` are the same array for bit-exact outputs.
template <class Element>
Comparison compare_chunk(const Element* low, const Element* high, const Element* actual,
                         std::int64_t first, std::int64_t last) {
  using Bits = std::conditional_t<sizeof(Element) == 2, std::uint16_t, std::uint32_t>;
  Comparison result;
  const auto bytes = static_cast<std::size_t>(last - first) * sizeof(Element);
  if (low == high && std::memcmp(low + first, actual + first, bytes) == 0) return result;
  for (std::int64_t i = first; i < last; ++i) {
    const auto from = std::bit_cast<Bits>(low[i]), to = std::bit_cast<Bits>(high[i]);
    const auto bits = std::bit_cast<Bits>(actual[i]);
    if (is_within(from, to, bits)) continue;
    if (result.mismatches++ == 0) result.first_mismatch = i;
    result.max_ulps = std::max(result.max_ulps, distance_outside(from, to, bits));
  }
  return result;
}

template <class Element>
Comparison compare_all(std::span<const Element> low, std::span<const Element> high,
                       std::span<const Element> actual) {
  if (low.size() != actual.size() || high.size() != actual.size()) {
    const auto expected = low.size() != actual.size() ? low.size() : high.size();
    throw std::invalid_argument(fmt::format("cannot compare {} elements with {}; pass both in full",
                                            expected, actual.size()));
  }
  Comparison total;
  std::mutex mutex;
  parallel_for(static_cast<std::int64_t>(low.size()), chunk_elements, [&](auto first, auto last) {
    const Comparison chunk = compare_chunk(low.data(), high.data(), actual.data(), first, last);
    if (chunk.equal()) return;
    const std::scoped_lock lock(mutex);
    total.mismatches += chunk.mismatches;
    if (total.first_mismatch < 0 || chunk.first_mismatch < total.first_mismatch) {
      total.first_mismatch = chunk.first_mismatch;
    }
    total.max_ulps = std::max(total.max_ulps, chunk.max_ulps);
  });
  return total;
}

/// Plants one fault, so that `actual` differs from `expected` only at `index`, by `ulps`, which
/// must be found.
template <class Bits>
void require_found(const std::vector<Bits>& expected, std::vector<Bits> actual, std::int64_t index,
                   std::string_view fault, Bits planted, std::uint32_t ulps) {
  actual[index] = planted;
  const Comparison comparison = compare_bits(std::span<const Bits>(expected), actual);
  if (comparison.mismatches != 1 || comparison.first_mismatch != index ||
      comparison.max_ulps != ulps) {
    throw std::logic_error(fmt::format(
        "the comparison is broken: {} planted at element {} of {}, {} ULPs away, gave {} "
        "mismatches, first {}, at most {} ULPs away; no result of this build can be believed",
        fault, index, expected.size(), ulps, comparison.mismatches, comparison.first_mismatch,
        comparison.max_ulps));
  }
}

/// Tests the comparison with an interval around one element: both ends are inside; one step beyond
/// them, a NaN and the other sign are outside.
template <class Bits>
void self_test_interval(const std::vector<Bits>& middle, std::int64_t index, Bits nan, Bits sign) {
  const auto element = static_cast<Bits>(middle[index] & ~sign);
  auto low = middle, high = middle, actual = middle;
  low[index] = static_cast<Bits>(element - 2u);
  high[index] = static_cast<Bits>(element + 2u);
  const auto check = [&](Bits planted, bool within) {
    actual[index] = planted;
    const Comparison comparison = compare_within(std::span<const Bits>(low), high, actual);
    if (comparison.equal() != within || (!within && comparison.first_mismatch != index)) {
      throw std::logic_error(fmt::format(
          "the comparison is broken: {:#x} is {}seen from {:#x} to {:#x}; no result of this build "
          "can be believed",
          planted, within ? "not " : "", low[index], high[index]));
    }
  };
  for (const unsigned in : {0u, 1u, 2u, 3u, 4u}) check(static_cast<Bits>(low[index] + in), true);
  for (const Bits out : {static_cast<Bits>(low[index] - 1u), static_cast<Bits>(high[index] + 1u),
                         nan, static_cast<Bits>(element ^ sign)}) {
    check(out, false);
  }
  // Around zero: from a negative number to a positive one.
  low[index] = static_cast<Bits>(sign + 2u);
  high[index] = Bits{2};
  for (const Bits in : {Bits{0}, sign, Bits{2}, static_cast<Bits>(sign + 2u)}) check(in, true);
  for (const Bits out : {Bits{3}, static_cast<Bits>(sign + 3u), nan}) check(out, false);
}

/// Tests the comparison on elements with the given bits for NaN, -0.0 and usual values.
template <class Bits>
void self_test(Bits nan, Bits negative_zero, Bits one) {
  const std::int64_t n = 2 * chunk_elements + 3;
  std::vector<Bits> expected(n);
  for (std::int64_t i = 0; i < n; ++i) expected[i] = static_cast<Bits>(one + i % 509);
  const std::int64_t nan_at = 7;
  expected[nan_at] = nan;  // a NaN that equals the expected one is right
  if (!compare_bits(std::span<const Bits>(expected), expected).equal()) {
    throw std::logic_error("the comparison is broken: an array differs from itself");
  }
  for (const std::int64_t index :
       {std::int64_t{0}, n / 3, chunk_elements - 1, chunk_elements, n - 1}) {
    const Bits flipped = expected[index] ^ 1u;
    const auto unwritten = static_cast<Bits>(0xcdcdcdcdu);
    const std::uint32_t from_below_zero = (unwritten ^ negative_zero) + expected[index];
    require_found(expected, expected, index, "a flipped bit", flipped, 1);
    require_found(expected, expected, index, "a NaN", nan, no_distance);
    require_found(expected, expected, index, "an unwritten element", unwritten, from_below_zero);
    auto with_zero = expected;
    with_zero[index] = 0;
    require_found(with_zero, with_zero, index, "a -0.0", negative_zero, 0);
  }
  self_test_interval<Bits>(expected, chunk_elements, nan, negative_zero);
}

}  // namespace

Comparison compare_within(std::span<const std::uint16_t> low, std::span<const std::uint16_t> high,
                          std::span<const std::uint16_t> actual) {
  return compare_all(low, high, actual);
}

Comparison compare_within(std::span<const std::uint32_t> low, std::span<const std::uint32_t> high,
                          std::span<const std::uint32_t> actual) {
  return compare_all(low, high, actual);
}

Comparison compare_bits(std::span<const float> expected, std::span<const float> actual) {
  return compare_all(expected, expected, actual);
}

void self_test_comparison() {
  self_test<std::uint16_t>(0x7fff, 0x8000, 0x3c00);
  self_test<std::uint32_t>(0x7fffffff, 0x80000000, 0x3f800000);
}

}  // namespace reprolab::reference
