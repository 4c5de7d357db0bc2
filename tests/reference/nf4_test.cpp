// The definition. The golden file shows that blocks of zeros, infinite scales and midpoints are as
// in bitsandbytes, and that the map and codes of nested scales are, also for NaNs.
#include "reference/nf4/nf4.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace reprolab::reference {
namespace {

struct Quantized {
  std::vector<std::uint8_t> codes;
  std::vector<float> absmax;
};

Quantized quantized(const std::vector<std::uint16_t>& weights, WeightType type, int block_size) {
  const auto n = static_cast<std::int64_t>(weights.size());
  Quantized result{std::vector<std::uint8_t>(code_bytes(n)),
                   std::vector<float>(block_count(n, block_size))};
  quantize(weights, type, block_size, result.codes, result.absmax);
  return result;
}

std::vector<std::uint16_t> dequantized(const Quantized& q, std::size_t n, WeightType type,
                                       int block_size) {
  std::vector<std::uint16_t> output(n, 0xcdcd);
  dequantize(q.codes, q.absmax, standard_table, block_size, type, output);
  return output;
}

/// The output of one block of 32 equal codes.
std::uint16_t single(int code, float absmax, WeightType type) {
  const Quantized q{std::vector<std::uint8_t>(16, static_cast<std::uint8_t>(code * 17)), {absmax}};
  return dequantized(q, 32, type, 32)[31];
}

/// The definition, one element at a time, in double: there the product of two fp32 numbers is
/// exact, so rounding it to fp32 gives the fp32 product.
std::uint16_t by_definition(const Quantized& q, std::int64_t i, WeightType type, int block_size) {
  const double exact =
      static_cast<double>(standard_table[code_at(q.codes, i)]) * q.absmax[i / block_size];
  return round_to(type, static_cast<float>(exact));
}

/// The last size is of more than one chunk.
TEST(Nf4, FollowsTheDefinitionElementByElement) {
  for (const auto type : {WeightType::fp16, WeightType::bf16}) {
    for (int block_size = 32; block_size <= 4096; block_size *= 2) {
      for (const int n : {1, 2, 31, 33, 4095, 8192, 70'001}) {
        SCOPED_TRACE(testing::Message() << name(type) << " " << block_size << " " << n);
        std::vector<std::uint16_t> weights(n);
        normal_weights(3, 0, type, 0.02f, weights);
        const Quantized q = quantized(weights, type, block_size);
        const auto output = dequantized(q, n, type, block_size);
        for (int i = 0; i < n; ++i) {
          ASSERT_EQ(output[i], by_definition(q, i, type, block_size)) << i;
          const float scaled = widen(type, weights[i]) * (1.0f / q.absmax[i / block_size]);
          int code = 0;
          for (const float midpoint : standard_midpoints) code += scaled > midpoint;
          ASSERT_EQ(code_at(q.codes, i), code) << i;
        }
        if (n % 2 != 0) {
          EXPECT_EQ(q.codes.back() & 15, 7);
        }
      }
    }
  }
}

/// Scales, table entries and products that are subnormal are zeros of their sign.
TEST(Nf4, SubnormalsCountAsZero) {
  constexpr float min_normal = std::numeric_limits<float>::min(), subnormal = min_normal / 2;
  EXPECT_EQ(single(15, min_normal, WeightType::bf16), 0x0080) << "1.0 times it stays normal";
  EXPECT_EQ(single(14, min_normal, WeightType::bf16), 0x0000);
  EXPECT_EQ(single(1, min_normal, WeightType::bf16), 0x8000);
  EXPECT_EQ(single(15, subnormal, WeightType::bf16), 0x0000);
  EXPECT_EQ(single(0, subnormal, WeightType::bf16), 0x8000);
  Nf4Table table{};
  const std::vector<std::uint8_t> codes(16);
  std::vector<std::uint16_t> output(32);
  for (const auto& [value, scale] : {std::pair(4.0f, subnormal), std::pair(subnormal, 4.0f)}) {
    table.fill(value);
    dequantize(codes, std::vector{scale}, table, 32, WeightType::bf16, output);
    EXPECT_EQ(output[0], 0x0000) << value;
  }
}

TEST(Nf4, SubnormalWeightsAndReciprocalsQuantizeAsZerosAndNanAsCodeZero) {
  std::vector<std::uint16_t> weights(64, 0x0001);  // bf16 9.2e-41
  const Quantized zeros = quantized(weights, WeightType::bf16, 64);
  EXPECT_EQ(zeros.absmax[0], 0.0f);
  EXPECT_EQ(zeros.codes[0], 0x00);
  weights[0] = 0x0080;  // the least normal number: the others are 0, not 1/128 of it
  EXPECT_EQ(quantized(weights, WeightType::bf16, 64).codes[0], 0xf7);
  weights.assign(64, 0x7f7f);  // the greatest number of bf16
  EXPECT_EQ(quantized(weights, WeightType::bf16, 64).codes[0], 0x77);
  weights.assign(64, 0x3c00);  // fp16 1.0
  weights[5] = 0x7e00;
  const Quantized q = quantized(weights, WeightType::fp16, 64);
  EXPECT_EQ(q.absmax[0], 1.0f) << "a NaN does not reach the scale";
  EXPECT_EQ(code_at(q.codes, 5), 0);
}

TEST(NestedScales, ATieGoesToTheEvenCode) {
  ScaleMap map{};
  for (int i = 0; i < 256; ++i) map[i] = static_cast<float>(i - 128) / 128.0f;
  map[255] = 1.0f;
  const std::vector<float> absmax = {1.0f, 0.5f / 128, 1.5f / 128, 2.5f / 128};
  const NestedScales nested = quantize_scales(absmax, map, 0.0f);
  EXPECT_EQ(nested.codes, (std::vector<std::uint8_t>{255, 128, 130, 130}));
}

TEST(NestedScales, SubnormalsCountAsZero) {
  constexpr float min_normal = std::numeric_limits<float>::min();
  NestedScales nested;
  std::vector<float> absmax(1);
  nested.codes = {0};
  for (const auto& [value, scale] :
       {std::pair(4.0f, min_normal / 2), std::pair(min_normal / 2, 4.0f)}) {
    nested.map[0] = value;
    nested.absmax = {scale};
    dequantize_scales(nested, absmax);
    EXPECT_EQ(absmax[0], 0.0f) << value;
  }
  ScaleMap map{};
  for (int i = 0; i < 256; ++i) map[i] = static_cast<float>(i - 127) * min_normal;
  EXPECT_EQ(quantize_scales(std::vector{0.0f, 1.0f}, map, 0.0f).codes[0], 128)
      << "half of the least normal number is zero, so that there is a tie";
}

std::vector<std::uint16_t> normal(std::uint64_t seed, std::uint64_t first, std::size_t count,
                                  WeightType type = WeightType::fp16) {
  std::vector<std::uint16_t> values(count);
  normal_weights(seed, first, type, 0.02f, values);
  return values;
}

/// The bits themselves: recorded runs have a seed, so its data must never change.
TEST(NormalWeights, AreTheseBitsForEverWhateverPartIsMade) {
  EXPECT_EQ(normal(1, 0, 4), (std::vector<std::uint16_t>{0x23d5, 0x90cf, 0xa71a, 0xa592}));
  EXPECT_EQ(normal(1, 1ull << 40, 2, WeightType::bf16),
            (std::vector<std::uint16_t>{0x3d1b, 0xb913}));
  const auto whole = normal(5, 0, 200'000);
  const auto part = normal(5, 70'001, 1000);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 70'001));
}

TEST(NormalWeights, MomentsAndTailsAreThoseOfANormalDistribution) {
  const auto values = normal(7, 0, 1 << 20);
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0, fourths = 0, past_3 = 0;
  for (const std::uint16_t bits : values) {
    const double z = widen_fp16(bits) / 0.02;
    sum += z;
    squares += z * z;
    fourths += z * z * z * z;
    past_3 += std::abs(z) > 3;
  }
  EXPECT_NEAR(sum / n, 0.0, 0.004);
  EXPECT_NEAR(squares / n, 1.0, 0.006);
  EXPECT_NEAR(fourths / n, 3.0, 0.05);
  EXPECT_NEAR(past_3 / n, 0.0027, 0.0003);
}

}  // namespace
}  // namespace reprolab::reference
