#include "reference/nf4/quantizer_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/compare.hpp"

namespace reprolab::reference {
namespace {

int code_of(float weight, float reciprocal) {
  int code = 0;
  for (const float midpoint : standard_midpoints) code += weight * reciprocal > midpoint;
  return code;
}

bool reciprocal_explains(float weight, float absmax, int stored_code) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  if (absmax == 0 || absmax == infinity) return false;  // approximated without an error
  const float exact = 1.0f / absmax;
  return code_of(weight, std::nextafter(exact, 0.0f)) == stored_code ||
         code_of(weight, std::nextafter(exact, infinity)) == stored_code;
}

float greatest_magnitude(const QuantizedTensor& tensor, std::span<const std::uint16_t> source,
                         std::int64_t block) {
  float greatest = 0;
  const std::int64_t end = std::min<std::int64_t>(tensor.n, (block + 1) * tensor.block_size);
  for (std::int64_t i = block * tensor.block_size; i < end; ++i) {
    greatest = std::fmax(greatest, std::abs(widen(tensor.type, source[i])));
  }
  return greatest;
}

bool is_subnormal(float value) { return std::fpclassify(value) == FP_SUBNORMAL; }

std::int64_t count_scale_differences(const QuantizedTensor& tensor,
                                     const std::vector<float>& absmax, int threads) {
  if (!tensor.nested) {
    return compare_bits(std::span<const float>(tensor.absmax), absmax, threads).mismatches;
  }
  const NestedScales& stored = *tensor.nested;
  if (stored.block_size != standard_nested_block_size) {
    return static_cast<std::int64_t>(stored.codes.size());
  }
  const NestedScales ours = quantize_scales(absmax, stored.map, stored.offset, threads);
  std::int64_t differences =
      compare_bits(std::span<const float>(stored.absmax), ours.absmax, threads).mismatches;
  for (std::size_t i = 0; i < ours.codes.size(); ++i)
    differences += ours.codes[i] != stored.codes[i];
  return differences;
}

}  // namespace

QuantizerCheck check_quantizer(const QuantizedTensor& tensor, std::span<const std::uint16_t> source,
                               int threads) {
  std::vector<std::uint8_t> codes(tensor.codes.size());
  std::vector<float> absmax(tensor.absmax.size());
  quantize(source, tensor.type, tensor.block_size, codes, absmax, threads);
  QuantizerCheck check{.weights = tensor.n,
                       .scales = count_scale_differences(tensor, absmax, threads)};
  if (codes == tensor.codes) return check;
  for (std::int64_t i = 0; i < tensor.n; ++i) {
    const int stored = code_at(tensor.codes, i);
    if (code_at(codes, i) == stored) continue;
    const std::int64_t block = i / tensor.block_size;
    const float weight = widen(tensor.type, source[i]);
    if (is_subnormal(weight) || is_subnormal(greatest_magnitude(tensor, source, block))) {
      ++check.from_subnormals;
    } else if (reciprocal_explains(weight, absmax[block], stored)) {
      ++check.from_reciprocal;
    } else {
      ++check.unexplained;
    }
  }
  return check;
}

std::string describe(const QuantizerCheck& check) {
  if (check.equal()) return {};
  return fmt::format(
      "{} of {} codes differ: {} explained by subnormals, {} by the approximate reciprocal, {} "
      "unexplained; {} scales differ",
      check.explained() + check.unexplained, check.weights, check.from_subnormals,
      check.from_reciprocal, check.unexplained, check.scales);
}

}  // namespace reprolab::reference
