#include "reference/mismatch_report.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

namespace reprolab::reference {
namespace {

std::string position(std::int64_t index, const std::vector<std::int64_t>& shape) {
  if (shape.size() < 2 || shape.back() <= 0) return fmt::format("index {}", index);
  return fmt::format("index {} (row {}, column {})", index, index / shape.back(),
                     index % shape.back());
}

std::string distance(WeightType type, std::uint16_t expected, std::uint16_t actual) {
  const std::int64_t ulps = distance_in_ulps(type, expected, actual);
  if (ulps < 0) return "not comparable in ULPs (NaN)";
  if (ulps == 0) return "0 ULPs apart (zeros of different sign)";
  return fmt::format("{} ULP{} apart", ulps, ulps == 1 ? "" : "s");
}

}  // namespace

std::int64_t distance_in_ulps(WeightType type, std::uint16_t a, std::uint16_t b) {
  if (std::isnan(widen(type, a)) || std::isnan(widen(type, b))) return -1;
  const auto ordinal = [](std::uint16_t bits) {
    const std::int64_t magnitude = bits & 0x7fff;
    return bits & 0x8000 ? -magnitude : magnitude;
  };
  return std::abs(ordinal(a) - ordinal(b));
}

std::string describe_mismatch(const Comparison& found, std::int64_t n, const Nf4View& source,
                              std::uint16_t expected, std::uint16_t actual) {
  const std::int64_t index = found.first_mismatch;
  const std::int64_t block = index / source.block_size;
  const int code = code_at(source.codes, index);
  return fmt::format(
      "{} of {} weights differ; first at {}: block {}, code {} ({:.9g}), scale {:.9g}, "
      "expected {:#06x} ({:.6g}), actual {:#06x} ({:.6g}), {}",
      found.mismatches, n, position(index, source.shape), block, code, source.table[code],
      source.absmax[block], expected, widen(source.type, expected), actual,
      widen(source.type, actual), distance(source.type, expected, actual));
}

}  // namespace reprolab::reference
