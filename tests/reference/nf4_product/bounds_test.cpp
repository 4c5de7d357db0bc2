// The bound compared with manual computations for few numbers, and at its extremes.
#include "reference/nf4_product/bounds.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/refusal.hpp"

namespace reprolab::reference {
namespace {

constexpr std::uint16_t one = 0x3c00, two = 0x4000, half = 0x3800;  // fp16

/// One row of 32 inputs and one output: weights 1 (code 15), scale 1, where `input` is not 0.
struct Small {
  std::vector<std::uint8_t> codes = std::vector<std::uint8_t>(16, 0xff);
  std::vector<float> absmax{1.0f};
  std::vector<std::uint16_t> input = std::vector<std::uint16_t>(32, 0), bias{};

  Nf4Product view() const {
    return {.m = 1,
            .n = 1,
            .k = 32,
            .codes = codes,
            .absmax = absmax,
            .block_size = 32,
            .input = input,
            .bias = bias};
  }
  Bounds bounds(Reading reading = Reading::dequantized_weights) const {
    return product_bounds(view(), reading, product_sums(view(), weights_of(reading)));
  }
};

/// The bound of one output; `magnitude` is S without the bias.
double error_bound(const Nf4Product& product, Reading reading, const RowOfInputs& row,
                   double magnitude, double bias) {
  return row_bound(product, reading, row, bias != 0).of(magnitude + std::abs(bias));
}

TEST(ProductBounds, OneInputThatIsOneHasTheWeightsBitsAlone) {
  for (int code = 0; code < 16; ++code) {
    for (const float scale : {1.0f, 0.03f, 1e-5f}) {
      Small small;
      small.codes[3] = static_cast<std::uint8_t>(code << 4);
      small.absmax = {scale};
      small.input[6] = one;
      const auto bounds = small.bounds();
      const std::uint16_t weight = round_to_fp16(standard_table[code] * scale);
      if (code == 7) {
        EXPECT_EQ(bounds.low[0], 0x8000) << "a zero may have either sign";
        EXPECT_EQ(bounds.high[0], 0x0000);
      } else {
        EXPECT_EQ(bounds.low[0], weight) << code << " " << scale;
        EXPECT_EQ(bounds.high[0], weight) << code << " " << scale;
      }
    }
  }
}

/// 1 + 2 + 0.5: three terms, so 4 roundings of 2^-23 of 3.5.
TEST(ProductBounds, ThreeTermsByHand) {
  Small small;
  small.input[0] = one;
  small.input[17] = two;
  small.input[31] = half;
  const auto sums = product_sums(small.view(), Weights::dequantized);
  EXPECT_EQ(sums.sum[0], 3.5);
  EXPECT_EQ(sums.magnitude[0], 3.5);
  const double error = error_bound(small.view(), Reading::dequantized_weights, {3, 3.5}, 3.5, 0);
  EXPECT_NEAR(error, 4 * 0x1p-23 * 3.5, 1e-12);
  EXPECT_NEAR(error_bound(small.view(), Reading::rounded_entries, {3, 3.5}, 3.5, 0),
              6 * 0x1p-23 * 3.5, 1e-11);
  // Four roundings to 16 bits, and 8 to fp32; fp16 has small numbers too.
  const double small_in_fp16 = 2 * (2 * 3.5 + 3) * 0x1p-24;
  Nf4Product product = small.view();
  EXPECT_NEAR(error_bound(product, Reading::rounded_products, {3, 3.5}, 3.5, 0),
              (std::pow(1 + 0x1p-11, 4) * (1 + 8 * 0x1p-23) - 1) * 3.5 + small_in_fp16, 1e-10);
  product.type = WeightType::bf16;
  EXPECT_NEAR(error_bound(product, Reading::rounded_products, {3, 3.5}, 3.5, 0),
              (std::pow(1 + 0x1p-8, 4) * (1 + 8 * 0x1p-23) - 1) * 3.5, 1e-10);
  EXPECT_EQ(small.bounds().low[0], round_to_fp16(3.5f))
      << "far from the middle between two numbers";
  EXPECT_EQ(small.bounds().high[0], round_to_fp16(3.5f));
}

TEST(ProductBounds, BothNeighboursOfATieAreRight) {
  Small small;
  small.input[0] = one;
  small.input[1] = 0x1000;  // 2^-11: half an ulp of 1
  const auto bounds = small.bounds();
  EXPECT_EQ(bounds.low[0], one);
  EXPECT_EQ(bounds.high[0], one + 1);
  // 3 * 1025 / 1024 is in the middle, and its error less than a step of fp32.
  small.absmax = {1 + 0x1p-10f};
  small.input[0] = round_to_fp16(3.0f);
  small.input[1] = 0;
  const auto of_one_term = small.bounds();
  EXPECT_EQ(of_one_term.low[0], round_to_fp16(3.0f) + 1);
  EXPECT_EQ(of_one_term.high[0], round_to_fp16(3.0f) + 2);
}

TEST(ProductBounds, TheBiasIsOneTermMore) {
  Small small;
  small.input[0] = one;
  small.bias = {two};
  EXPECT_EQ(small.bounds().low[0], round_to_fp16(3.0f));
  EXPECT_EQ(small.bounds().high[0], round_to_fp16(3.0f));
  EXPECT_NEAR(error_bound(small.view(), Reading::dequantized_weights, {1, 1}, 1, 2), 3 * 0x1p-23,
              1e-12);
}

/// 1 + 2^-11 is a tie, and each sum a little below it.
TEST(ProductBounds, TermsAndTheBiasWidenTheIntervalAndZerosDoNot) {
  Small small;
  small.input[0] = one;
  small.input[1] = 0x1000;  // 2^-11
  small.input[2] = 0x8020;  // -2^-19: 4 roundings of 1 are less
  EXPECT_EQ(small.bounds().high[0], one);
  small.input[0] = 0x4800;  // 8
  small.bias = {0xc700};    // -7
  small.input[2] = 0x8080;  // -2^-17: 5 roundings of 15 are more, 4 of 15 or 5 of 8 are less
  EXPECT_EQ(small.bounds().low[0], one);
  EXPECT_EQ(small.bounds().high[0], one + 1);
}

/// Many roundings multiply: gamma(a) = a u / (1 - a u), here a fifth above a u.
TEST(ProductBounds, ManyRoundingsAreMoreThanTheirSum) {
  const Small small;
  Nf4Product product = small.view();
  product.k = std::int64_t{1} << 20;
  const double roundings = (product.k - 1) + product.k / 4.0, sum = roundings * 0x1p-23;
  const double error =
      error_bound(product, Reading::dequantized_weights, {product.k, 1.0 * product.k}, 1, 0);
  EXPECT_NEAR(error, sum / (1 - sum), 1e-8);
  EXPECT_GT(error, 1.15 * sum);
}

/// Step 6, alone: one term has no addition.
TEST(ProductBounds, OneTermHasTheRoundingsOfTheReference) {
  const Small small;
  for (const double magnitude : {1.0, 1000.0}) {
    EXPECT_DOUBLE_EQ(
        error_bound(small.view(), Reading::dequantized_weights, {1, 1.0}, magnitude, 0),
        32 * 0x1p-52 * magnitude);
  }
  const double with_bias = 0x1p-23 / (1 - 0x1p-23) * 1008 + 32 * 0x1p-52 * 1008;
  EXPECT_DOUBLE_EQ(error_bound(small.view(), Reading::dequantized_weights, {1, 1.0}, 1000, -8),
                   with_bias);
}

/// Step 4, alone: a sum without magnitude may still have rounded small numbers.
TEST(ProductBounds, SmallNumbersByHand) {
  const Small small;
  Nf4Product product = small.view();
  const RowOfInputs row{3, 5.0};
  const auto of = [&](Reading reading) { return error_bound(product, reading, row, 0, 0); };
  const double additions = 2 + 2, in_fp32 = (2 * 3 + additions + 2 + 2 * 5.0) * 0x1p-126;
  EXPECT_DOUBLE_EQ(of(Reading::dequantized_weights), 2 * in_fp32);
  EXPECT_DOUBLE_EQ(of(Reading::rounded_entries), 2 * in_fp32);
  const double in_fp16 = 2 * (in_fp32 + (2 * 5.0 + 3) * 0x1p-24);
  EXPECT_DOUBLE_EQ(of(Reading::rounded_products), in_fp16);
  for (const float offset : {8.0f, -8.0f}) {
    product.nested_offset = offset;
    EXPECT_DOUBLE_EQ(of(Reading::rounded_products), in_fp16 + 2 * 5.0 * 8 * 0x1p-23);
    EXPECT_DOUBLE_EQ(of(Reading::rounded_entries), 2 * in_fp32);
  }
  product.nested_offset = 0;
  product.type = WeightType::bf16;  // whose small numbers are those of fp32
  EXPECT_DOUBLE_EQ(of(Reading::rounded_products), 2 * in_fp32);
  product.table[0] = -2;  // the largest entry
  EXPECT_DOUBLE_EQ(of(Reading::rounded_products), 2 * (in_fp32 + 2 * 5.0 * 0x1p-126));
}

/// If a step may overflow, every number is allowed.
TEST(ProductBounds, ASumBeyondTheLargestNumberMayBeInfinite) {
  Small small;
  const auto expect = [&](Reading reading, std::uint16_t low) {
    const auto bounds = small.bounds(reading);
    EXPECT_EQ(bounds.low[0], low);
    EXPECT_EQ(bounds.high[0], 0x7c00);
  };
  small.input.assign(32, 0x7bff);  // 65504
  expect(Reading::dequantized_weights, 0x7c00);
  expect(Reading::rounded_products, 0xfc00);
  small.input.assign(32, 0);
  small.input[0] = 0x7bff;
  small.input[1] = round_to_fp16(16.0f);  // 65520, the middle
  expect(Reading::dequantized_weights, 0x7bff);
}

TEST(ProductBounds, EachReadingHasItsWeights) {
  Small small;
  small.codes[0] = 0x10;  // -0.6961928
  small.absmax = {0.03f};
  small.input[0] = one;
  const auto sum = [&](Weights which) { return product_sums(small.view(), which).sum[0]; };
  const float entry = standard_table[1], scale = 0.03f;
  EXPECT_EQ(sum(Weights::exact), double{entry} * scale);
  EXPECT_EQ(product_sums(small.view(), Weights::exact).magnitude[0], double{-entry} * scale);
  EXPECT_EQ(sum(Weights::rounded_entries), double{widen_fp16(round_to_fp16(entry))} * scale);
  EXPECT_EQ(sum(Weights::dequantized), widen_fp16(round_to_fp16(entry * scale)));
}

TEST(ProductBounds, ABlockOfWeightsMayReachIntoTheNextRow) {
  const std::vector<std::uint8_t> codes(3 * 33 / 2 + 1, 0xff);
  const std::vector<float> absmax{1, 2, 4, 8};
  std::vector<std::uint16_t> input(33, 0);
  input[0] = input[32] = one;
  const Nf4Product product{
      .m = 1, .n = 3, .k = 33, .codes = codes, .absmax = absmax, .block_size = 32, .input = input};
  const auto sums = product_sums(product, Weights::dequantized);
  EXPECT_EQ(sums.sum, (std::vector<double>{1 + 2, 2 + 4, 4 + 8}));
}

}  // namespace
}  // namespace reprolab::reference
