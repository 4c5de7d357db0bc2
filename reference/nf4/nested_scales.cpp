#include "reference/nf4/nested_scales.hpp"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "reference/float16.hpp"
#include "reference/parallel.hpp"

namespace reprolab::reference {
namespace {

constexpr std::int64_t chunk_scales = 65536;

std::int64_t groups_of(std::size_t scales, int block_size) {
  return (static_cast<std::int64_t>(scales) + block_size - 1) / block_size;
}

/// `count` evenly spaced values from 0.1 to 1, rounded as in the library that made the stored maps:
/// computed from the nearer end, with a single rounding of product and sum.
std::vector<float> boundaries(int count) {
  constexpr float low = 0.1f;
  constexpr float high = 1.0f;
  const float step = (high - low) / static_cast<float>(count - 1);
  std::vector<float> values(count);
  for (int i = 0; i < count; ++i) {
    values[i] = i < count / 2 ? std::fma(step, static_cast<float>(i), low)
                              : std::fma(-step, static_cast<float>(count - 1 - i), high);
  }
  return values;
}

float greatest_magnitude(std::span<const float> values) {
  float greatest = 0;
  for (const float value : values) {
    if (std::abs(value) > greatest) greatest = std::abs(value);  // false for NaN
  }
  return greatest;
}

std::uint8_t nearest_code(const ScaleMap& map, float value) {
  if (std::isnan(value)) return 0;
  const auto above = std::upper_bound(map.begin(), map.end(), value);
  if (above == map.begin()) return 0;
  if (above == map.end()) return 255;
  const auto lower = static_cast<int>(above - map.begin()) - 1;
  const float midpoint = flush_subnormal((map[lower] + map[lower + 1]) * 0.5f);
  const bool upper_is_even = lower % 2 != 0;
  const bool upper = value > midpoint || (value == midpoint && upper_is_even);
  return static_cast<std::uint8_t>(lower + upper);
}

}  // namespace

ScaleMap dynamic_map() {
  constexpr std::array<float, 7> decades = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1.0f};
  ScaleMap map{};
  std::size_t size = 0;
  for (int i = 0; i < 7; ++i) {
    const auto edges = boundaries((1 << i) + 1);
    for (int j = 0; j < 1 << i; ++j) {
      const float value = decades[i] * ((edges[j] + edges[j + 1]) / 2.0f);
      map[size++] = value;
      map[size++] = -value;
    }
  }
  map[size++] = 0.0f;
  map[size++] = 1.0f;
  std::sort(map.begin(), map.end());
  return map;
}

void dequantize_scales(const NestedScales& nested, std::span<float> absmax, int threads) {
  const auto scales = static_cast<std::int64_t>(absmax.size());
  if (nested.block_size <= 0 || nested.codes.size() != absmax.size() ||
      static_cast<std::int64_t>(nested.absmax.size()) !=
          groups_of(absmax.size(), nested.block_size)) {
    throw std::invalid_argument(
        fmt::format("nested scales disagree: {} codes, {} second-level scales of {}, for {} scales",
                    nested.codes.size(), nested.absmax.size(), nested.block_size, absmax.size()));
  }
  parallel_for(scales, chunk_scales, threads, [&](auto first, auto last) {
    for (std::int64_t i = first; i < last; ++i) {
      const float scale = flush_subnormal(nested.absmax[i / nested.block_size]);
      const float product = flush_subnormal(flush_subnormal(nested.map[nested.codes[i]]) * scale);
      absmax[i] = product + nested.offset;
    }
  });
}

NestedScales quantize_scales(std::span<const float> absmax, const ScaleMap& map, float offset,
                             int threads) {
  NestedScales nested;
  nested.map = map;
  nested.offset = offset;
  nested.codes.resize(absmax.size());
  const std::int64_t groups = groups_of(absmax.size(), nested.block_size);
  nested.absmax.resize(groups);
  parallel_for(groups, chunk_scales / nested.block_size, threads, [&](auto first, auto last) {
    Eigen::Array<float, Eigen::Dynamic, 1, Eigen::ColMajor, standard_nested_block_size, 1> rest;
    for (std::int64_t group = first; group < last; ++group) {
      const std::int64_t begin = group * nested.block_size;
      const auto count = std::min<std::int64_t>(nested.block_size,
                                                static_cast<std::int64_t>(absmax.size()) - begin);
      rest = (Eigen::Map<const Eigen::ArrayXf>(absmax.data() + begin, count) - offset)
                 .unaryExpr(&flush_subnormal);
      const float greatest = greatest_magnitude({rest.data(), static_cast<std::size_t>(count)});
      nested.absmax[group] = greatest;
      rest *= flush_subnormal(1.0f / greatest);
      for (std::int64_t i = 0; i < count; ++i) {
        nested.codes[begin + i] = nearest_code(map, flush_subnormal(rest[i]));
      }
    }
  });
  return nested;
}

NestedScales quantize_scales(std::span<const float> absmax, int threads) {
  const Eigen::Map<const Eigen::ArrayXf> values(absmax.data(),
                                                static_cast<Eigen::Index>(absmax.size()));
  const double mean = absmax.empty() ? 0.0 : values.cast<double>().mean();
  return quantize_scales(absmax, dynamic_map(), static_cast<float>(mean), threads);
}

}  // namespace reprolab::reference
