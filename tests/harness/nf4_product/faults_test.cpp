// Which data show which fault: simulated kernels that sum in other orders lie within their bound,
// and each planted fault lies outside of it on the data that is said to show it.
#include <gtest/gtest.h>

#include <algorithm>

#include "reference/nf4_product/bounds.hpp"
#include "tests/harness/nf4_product/simulated.hpp"

namespace reprolab::nf4_product {
namespace {

using reference::Reading, reference::Weights, reference::WeightType;

constexpr std::int64_t k = 4096, outputs = 24, rows = 3;
constexpr InputData all_data[] = {InputData::normal, InputData::sparse, InputData::one_hot};

ProductData made(InputData data, WeightType type = WeightType::fp16, bool bias = false,
                 bool nested = false) {
  return make_product({.weights = {.rows = outputs, .columns = k, .nested = nested, .output = type},
                       .m = rows,
                       .bias = bias,
                       .data = data},
                      1);
}

std::int64_t outside(const ProductData& data, Reading reading,
                     const std::vector<std::uint16_t>& output) {
  const auto bounds = product_bounds(data.view(), reading, 1);
  return reference::compare_within(bounds.low, bounds.high, output, 1).mismatches;
}

std::int64_t outside(const ProductData& data, const Simulated& kernel,
                     Reading reading = Reading::dequantized_weights) {
  return outside(data, reading, simulate(data.view(), kernel));
}

Sum groups_of(std::size_t group) {
  return [group](std::span<const float> products) { return in_groups(products, group); };
}

TEST(ProductFaults, EveryOrderAndRoundingOfASumIsWithinTheBound) {
  for (const InputData data : all_data) {
    for (const auto type : {WeightType::fp16, WeightType::bf16}) {
      for (const bool nested : {false, true}) {
        const ProductData product = made(data, type, true, nested);
        for (const Sum& sum : {Sum(one_by_one), Sum(in_lanes), groups_of(4), groups_of(16)}) {
          EXPECT_EQ(outside(product, {.sum = sum}), 0) << product.spec.name();
          EXPECT_EQ(outside(product, {.weights = Weights::rounded_entries, .sum = sum},
                            Reading::rounded_entries),
                    0);
          EXPECT_EQ(
              outside(product, {.weights = Weights::exact, .sum = sum}, Reading::fp32_weights), 0);
          EXPECT_EQ(
              outside(product, {.sum = sum, .rounds_products = true}, Reading::rounded_products),
              0);
        }
      }
    }
  }
}

/// Where all terms have one sign, roundings in one direction add up.
TEST(ProductFaults, CutOffSumsOfEqualSignsAreWithinTheBound) {
  ProductData product = made(InputData::normal);
  for (auto& input : product.input) input &= 0x7fff;
  for (auto& codes : product.matrix.quantized.codes) codes |= 0x88;
  for (const std::size_t group : {1, 4, 8, 16}) {
    EXPECT_EQ(outside(product, {.sum = groups_of(group)}), 0) << group;
  }
}

/// The kernel leaves the products of these inputs out.
Sum without(std::size_t begin, std::size_t count) {
  return [=](std::span<const float> products) {
    std::vector<float> kept(products.begin(), products.end());
    std::fill_n(kept.begin() + static_cast<std::ptrdiff_t>(begin), count, 0.0f);
    return in_lanes(kept);
  };
}

TEST(ProductFaults, ADroppedStepOf16InputsShowsOnSparseRows) {
  for (const auto type : {WeightType::fp16, WeightType::bf16}) {
    const ProductData product = made(InputData::sparse, type);
    for (const std::size_t begin : {std::size_t{0}, std::size_t{1024}, std::size_t{k - 16}}) {
      EXPECT_GT(outside(product, {.sum = without(begin, 16)}), rows * outputs / 4);
    }
  }
}

/// As of a warp that has not written its part of the sum when the others add.
TEST(ProductFaults, APartThatIsLostInARaceShowsOnAnyRowsWithManyInputs) {
  for (const InputData data : {InputData::normal, InputData::sparse}) {
    EXPECT_GT(outside(made(data), {.sum = without(k / 2, k / 8)}), rows * outputs / 2);
  }
}

TEST(ProductFaults, OneWrongScaleShowsOnSparseRows) {
  for (const auto type : {WeightType::fp16, WeightType::bf16}) {
    const ProductData product = made(InputData::sparse, type);
    ProductData wrong = product;
    auto& scales = wrong.matrix.quantized.absmax;
    scales[64 * 5 + 9] = scales[64 * 5 + 10];  // of output 5, the neighbour's
    EXPECT_GT(outside(product, Reading::dequantized_weights, simulate(wrong.view(), {})), 0);
    EXPECT_GT(outside(product, Reading::rounded_entries,
                      simulate(wrong.view(), {.weights = Weights::rounded_entries})),
              0);
  }
}

TEST(ProductFaults, OneWeightThatIsOffByOneBitShowsOnOneHotRows) {
  ProductData product = made(InputData::one_hot);
  std::vector<std::uint16_t> output = simulate(product.view(), {});
  EXPECT_EQ(outside(product, Reading::dequantized_weights, output), 0);
  output[7] ^= 1;
  EXPECT_EQ(outside(product, Reading::dequantized_weights, output), 1);
}

/// A kernel that takes another reading's weights is found out.
TEST(ProductFaults, OtherWeightsThanThoseOfTheReadingShowOnOneHotRows) {
  ProductData product = made(InputData::one_hot);
  product.input = make_input(InputData::one_hot, 64, k, WeightType::fp16, 1);
  product.spec.m = 64;
  EXPECT_GT(outside(product, {.weights = Weights::rounded_entries}), 100);
  EXPECT_GT(outside(product, {}, Reading::rounded_entries), 100);
}

TEST(ProductFaults, SumsIn16BitsShowOnSparseRows) {
  for (const auto type : {WeightType::fp16, WeightType::bf16}) {
    const Sum sum = [type](std::span<const float> products) { return in_16_bits(products, type); };
    EXPECT_GT(outside(made(InputData::sparse, type), {.sum = sum}), rows * outputs / 4);
  }
}

TEST(ProductFaults, ABiasThatIsAddedTwiceOrNotShowsOnAnyRows) {
  for (const InputData data : all_data) {
    for (const double factor : {0.0, 2.0}) {
      EXPECT_GT(outside(made(data, WeightType::fp16, true), {.bias_factor = factor}),
                rows * outputs * 3 / 4);
    }
  }
}

/// The bias is to be added before the one rounding.
TEST(ProductFaults, ABiasAddedToARoundedSumShowsOnSparseRows) {
  EXPECT_GT(outside(made(InputData::sparse, WeightType::bf16, true), {.rounds_before_bias = true}),
            rows * outputs / 20);
}

}  // namespace
}  // namespace reprolab::nf4_product
