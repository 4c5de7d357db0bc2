#include "reference/nf4/nf4.hpp"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "reference/parallel.hpp"

namespace reprolab::reference {
namespace {

/// Number of blocks that one thread takes at a time: about 64 Ki weights.
constexpr std::int64_t blocks_per_chunk(int block_size) { return 65536 / block_size; }

/// One block's values, widened to fp32; stored on the stack.
using BlockValues = Eigen::Array<float, Eigen::Dynamic, 1, Eigen::ColMajor, max_block_size, 1>;
using BlockCodes =
    Eigen::Array<std::int32_t, Eigen::Dynamic, 1, Eigen::ColMajor, max_block_size, 1>;

float greatest_magnitude(const BlockValues& values) {
  // The maximum of magnitudes is the maximum of their bits, which vectorizes. NaN counts as zero.
  std::int32_t greatest = 0;
  for (Eigen::Index i = 0; i < values.size(); ++i) {
    const std::int32_t magnitude = std::bit_cast<std::int32_t>(values[i]) & 0x7fffffff;
    greatest = std::max(greatest, magnitude > 0x7f800000 ? 0 : magnitude);
  }
  return std::bit_cast<float>(greatest);
}

/// NaN (zero times the infinite reciprocal of zero) exceeds no midpoint: code 0.
void count_exceeded_midpoints(const BlockValues& scaled, BlockCodes& codes) {
  for (Eigen::Index i = 0; i < scaled.size(); ++i) {
    std::int32_t code = 0;
    for (const float midpoint : standard_midpoints) code += scaled[i] > midpoint;
    codes[i] = code;
  }
}

void pack(const BlockCodes& codes, std::uint8_t* bytes) {
  const Eigen::Index pairs = codes.size() / 2;
  for (Eigen::Index pair = 0; pair < pairs; ++pair) {
    bytes[pair] = static_cast<std::uint8_t>(codes[2 * pair] << 4 | codes[2 * pair + 1]);
  }
  if (codes.size() % 2 != 0) {
    bytes[pairs] = static_cast<std::uint8_t>(codes[codes.size() - 1] << 4 | 7);
  }
}

// ---- Scales ----

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

float greatest_of(std::span<const float> values) {
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

// ---- Normal values ----

constexpr std::uint64_t golden_ratio = 0x9e3779b97f4a7c15u;

/// Adds the word's 16-bit quarters in pairs; the two sums are the halves of the result.
constexpr std::uint64_t fold_quarters(std::uint64_t word) {
  constexpr std::uint64_t low_halves = 0x0000ffff0000ffffu;
  return (word & low_halves) + ((word >> 16) & low_halves);
}

constexpr float normal_value(std::uint64_t start, std::uint64_t index) {
  std::uint64_t sums = 0;
  for (std::uint64_t word = 0; word < 3; ++word) {
    sums += fold_quarters(mix(start + (3 * index + word) * golden_ratio));
  }
  const auto twelve = static_cast<std::int32_t>((sums >> 32) + (sums & 0xffffffffu));
  // Twelve uniforms on [0, 65535] have mean 6 * 65535; centred and divided by four.
  const float r = static_cast<float>(twelve - 6 * 65535) * 0x1p-18f;
  const float r2 = r * r;
  constexpr float a1 = 3.949846138f;
  constexpr float a3 = 0.252408784f;
  constexpr float a5 = 0.076542912f;
  constexpr float a7 = 0.008355968f;
  constexpr float a9 = 0.029899776f;
  return ((((a9 * r2 + a7) * r2 + a5) * r2 + a3) * r2 + a1) * r;
}

}  // namespace

void require_nf4_sizes(std::size_t weights, int block_size, std::size_t code_byte_count,
                       std::size_t absmax_count) {
  const auto n = static_cast<std::int64_t>(weights);
  if (!is_block_size(block_size)) {
    throw std::invalid_argument(
        fmt::format("block size {} is not a power of two from 32 to 4096", block_size));
  }
  if (static_cast<std::int64_t>(code_byte_count) != code_bytes(n)) {
    throw std::invalid_argument(fmt::format("{} weights need {} bytes of codes, not {}", n,
                                            code_bytes(n), code_byte_count));
  }
  if (static_cast<std::int64_t>(absmax_count) != block_count(n, block_size)) {
    throw std::invalid_argument(fmt::format("{} weights in blocks of {} need {} scales, not {}", n,
                                            block_size, block_count(n, block_size), absmax_count));
  }
}

void dequantize(std::span<const std::uint8_t> codes, std::span<const float> absmax,
                const Nf4Table& table, int block_size, WeightType type,
                std::span<std::uint16_t> output) {
  require_nf4_sizes(output.size(), block_size, codes.size(), absmax.size());
  const auto n = static_cast<std::int64_t>(output.size());
  const auto blocks = static_cast<std::int64_t>(absmax.size());
  parallel_for(blocks, blocks_per_chunk(block_size), [&](auto first, auto last) {
    for (std::int64_t block = first; block < last; ++block) {
      const float scale = flush_subnormal(absmax[block]);
      std::array<std::uint16_t, 16> outputs;  // a block has one scale, hence only 16 of them
      for (int code = 0; code < 16; ++code) {
        outputs[code] = round_to(type, flush_subnormal(flush_subnormal(table[code]) * scale));
      }
      const std::int64_t begin = block * block_size;
      const std::int64_t count = std::min<std::int64_t>(block_size, n - begin);
      const std::uint8_t* byte = codes.data() + begin / 2;
      std::uint16_t* out = output.data() + begin;
      for (std::int64_t pair = 0; pair < count / 2; ++pair) {
        out[2 * pair] = outputs[byte[pair] >> 4];
        out[2 * pair + 1] = outputs[byte[pair] & 15];
      }
      if (count % 2 != 0) out[count - 1] = outputs[byte[count / 2] >> 4];
    }
  });
}

void quantize(std::span<const std::uint16_t> weights, WeightType type, int block_size,
              std::span<std::uint8_t> codes, std::span<float> absmax) {
  require_nf4_sizes(weights.size(), block_size, codes.size(), absmax.size());
  const auto n = static_cast<std::int64_t>(weights.size());
  const auto blocks = static_cast<std::int64_t>(absmax.size());
  parallel_for(blocks, blocks_per_chunk(block_size), [&](auto first, auto last) {
    BlockValues values;
    BlockCodes block_codes;
    for (std::int64_t block = first; block < last; ++block) {
      const std::int64_t begin = block * block_size;
      const std::int64_t count = std::min<std::int64_t>(block_size, n - begin);
      values.resize(count);
      block_codes.resize(count);
      for (std::int64_t i = 0; i < count; ++i) {
        values[i] = flush_subnormal(widen(type, weights[begin + i]));
      }
      absmax[block] = greatest_magnitude(values);
      values *= flush_subnormal(1.0f / absmax[block]);
      count_exceeded_midpoints(values, block_codes);
      pack(block_codes, codes.data() + begin / 2);
    }
  });
}

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

void dequantize_scales(const NestedScales& nested, std::span<float> absmax) {
  const auto scales = static_cast<std::int64_t>(absmax.size());
  if (nested.block_size <= 0 || nested.codes.size() != absmax.size() ||
      static_cast<std::int64_t>(nested.absmax.size()) !=
          groups_of(absmax.size(), nested.block_size)) {
    throw std::invalid_argument(
        fmt::format("nested scales disagree: {} codes, {} second-level scales of {}, for {} scales",
                    nested.codes.size(), nested.absmax.size(), nested.block_size, absmax.size()));
  }
  parallel_for(scales, chunk_scales, [&](auto first, auto last) {
    for (std::int64_t i = first; i < last; ++i) {
      const float scale = flush_subnormal(nested.absmax[i / nested.block_size]);
      const float product = flush_subnormal(flush_subnormal(nested.map[nested.codes[i]]) * scale);
      absmax[i] = product + nested.offset;
    }
  });
}

NestedScales quantize_scales(std::span<const float> absmax, const ScaleMap& map, float offset) {
  NestedScales nested;
  nested.map = map;
  nested.offset = offset;
  nested.codes.resize(absmax.size());
  const std::int64_t groups = groups_of(absmax.size(), nested.block_size);
  nested.absmax.resize(groups);
  parallel_for(groups, chunk_scales / nested.block_size, [&](auto first, auto last) {
    Eigen::Array<float, Eigen::Dynamic, 1, Eigen::ColMajor, standard_nested_block_size, 1> rest;
    for (std::int64_t group = first; group < last; ++group) {
      const std::int64_t begin = group * nested.block_size;
      const auto count = std::min<std::int64_t>(nested.block_size,
                                                static_cast<std::int64_t>(absmax.size()) - begin);
      rest = (Eigen::Map<const Eigen::ArrayXf>(absmax.data() + begin, count) - offset)
                 .unaryExpr(&flush_subnormal);
      const float greatest = greatest_of({rest.data(), static_cast<std::size_t>(count)});
      nested.absmax[group] = greatest;
      rest *= flush_subnormal(1.0f / greatest);
      for (std::int64_t i = 0; i < count; ++i) {
        nested.codes[begin + i] = nearest_code(map, flush_subnormal(rest[i]));
      }
    }
  });
  return nested;
}

NestedScales quantize_scales(std::span<const float> absmax) {
  const Eigen::Map<const Eigen::ArrayXf> values(absmax.data(),
                                                static_cast<Eigen::Index>(absmax.size()));
  const double mean = absmax.empty() ? 0.0 : values.cast<double>().mean();
  return quantize_scales(absmax, dynamic_map(), static_cast<float>(mean));
}

void normal_weights(std::uint64_t seed, std::uint64_t first_index, WeightType type,
                    float standard_deviation, std::span<std::uint16_t> weights) {
  const std::uint64_t start = mix(seed + golden_ratio);
  parallel_for(static_cast<std::int64_t>(weights.size()), 65536, [&](auto first, auto last) {
    for (std::int64_t i = first; i < last; ++i) {
      const float value = normal_value(start, first_index + i);
      weights[i] = round_to(type, value * standard_deviation);
    }
  });
}

}  // namespace reprolab::reference
