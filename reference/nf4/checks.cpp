#include "reference/nf4/checks.hpp"

#include <fmt/format.h>

#include <vector>

namespace reprolab::reference {
namespace {

std::string position(std::int64_t index, const std::vector<std::int64_t>& shape) {
  if (shape.size() < 2 || shape.back() <= 0) return fmt::format("index {}", index);
  return fmt::format("index {} (row {}, column {})", index, index / shape.back(),
                     index % shape.back());
}

std::string ulps(std::uint32_t count) {
  return fmt::format("{} ULP{}", count, count == 1 ? "" : "s");
}

std::string distance(WeightType type, std::uint16_t expected, std::uint16_t actual) {
  const std::uint16_t infinity = type == WeightType::fp16 ? 0x7c00 : 0x7f80;
  const std::uint32_t apart = distance_in_ulps(expected, actual, infinity);
  if (apart == no_distance) return "not comparable in ULPs (NaN)";
  return fmt::format("{} apart{}", ulps(apart), apart == 0 ? " (zeros of different sign)" : "");
}

/// ULPs are meaningless if one of the weights is off by a factor of two or is a NaN.
std::string describe_extent(const Comparison& comparison, std::int64_t n, WeightType type) {
  const std::uint32_t factor_of_two = type == WeightType::fp16 ? 1u << 10 : 1u << 7;
  std::string differ = fmt::format("{} of {} weights differ", comparison.mismatches, n);
  if (comparison.equal() || comparison.max_ulps >= factor_of_two) return differ;
  if (comparison.max_ulps == 0) return differ + ", in the sign of zeros alone";
  return fmt::format("{}, by at most {}", differ, ulps(comparison.max_ulps));
}

std::int64_t count_scale_differences(const QuantizedTensor& tensor,
                                     const std::vector<float>& absmax) {
  if (!tensor.nested) {
    return compare_bits(std::span<const float>(tensor.absmax), absmax).mismatches;
  }
  const NestedScales& stored = *tensor.nested;
  if (stored.block_size != standard_nested_block_size) {
    return static_cast<std::int64_t>(stored.codes.size());
  }
  const NestedScales ours = quantize_scales(absmax, stored.map, stored.offset);
  std::int64_t differences =
      compare_bits(std::span<const float>(stored.absmax), ours.absmax).mismatches;
  for (std::size_t i = 0; i < ours.codes.size(); ++i)
    differences += ours.codes[i] != stored.codes[i];
  return differences;
}

}  // namespace

std::string describe_mismatch(const Comparison& comparison, const QuantizedTensor& tensor,
                              std::uint16_t expected, std::uint16_t actual) {
  const std::int64_t index = comparison.first_mismatch;
  const std::int64_t block = index / tensor.block_size;
  const int code = code_at(tensor.codes, index);
  return fmt::format(
      "{}; first at {}: block {}, code {} ({:.9g}), scale {:.9g}, "
      "expected {:#06x} ({:.6g}), actual {:#06x} ({:.6g}), {}",
      describe_extent(comparison, tensor.n, tensor.type), position(index, tensor.shape), block,
      code, tensor.table[code], tensor.absmax[block], expected, widen(tensor.type, expected),
      actual, widen(tensor.type, actual), distance(tensor.type, expected, actual));
}

std::string describe_quantizer(const QuantizedTensor& tensor,
                               std::span<const std::uint16_t> source) {
  std::vector<std::uint8_t> codes(tensor.codes.size());
  std::vector<float> absmax(tensor.absmax.size());
  quantize(source, tensor.type, tensor.block_size, codes, absmax);
  const std::int64_t scales = count_scale_differences(tensor, absmax);
  std::int64_t differences = 0;
  for (std::int64_t i = 0; i < tensor.n; ++i) {
    differences += code_at(codes, i) != code_at(tensor.codes, i);
  }
  if (differences == 0 && scales == 0) return {};
  return fmt::format("{} of {} codes and {} scales differ", differences, tensor.n, scales);
}

}  // namespace reprolab::reference
