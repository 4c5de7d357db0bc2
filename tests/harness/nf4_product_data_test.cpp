// Data that detect each fault: simulated kernels that sum in other orders are within their bound,
// and each planted fault is outside of it on the data that are meant to detect it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include "harness/nf4_product/product_data.hpp"
#include "reference/nf4_product/bounds.hpp"

namespace reprolab::nf4_product {
namespace {

using reference::Reading, reference::Weights, reference::WeightType;

/// The order of the sum of one output's products.
using Sum = std::function<float(std::span<const float> products)>;

float one_by_one(std::span<const float> products) {
  float sum = 0;
  for (const float product : products) sum += product;
  return sum;
}

/// Every 32nd product, as lanes sum, then pairs of the 32 sums.
float in_lanes(std::span<const float> products) {
  float lanes[32] = {};
  for (std::size_t i = 0; i < products.size(); ++i) lanes[i % 32] += products[i];
  for (int step = 16; step > 0; step /= 2) {
    for (int lane = 0; lane < step; ++lane) lanes[lane] += lanes[lane + step];
  }
  return lanes[0];
}

/// `value` without the bits below 2^exponent.
double cut_off(double value, int exponent) {
  return std::ldexp(std::trunc(std::ldexp(value, -exponent)), exponent);
}

/// As in a tensor core: groups of `group` products and the previous sum, all truncated 23 bits
/// below the first bit of the largest, without guard bits; so is their sum.
float in_groups(std::span<const float> products, std::size_t group) {
  float sum = 0;
  for (std::size_t begin = 0; begin < products.size(); begin += group) {
    const auto addends = products.subspan(begin, std::min(group, products.size() - begin));
    float largest = std::abs(sum);
    for (const float addend : addends) largest = std::max(largest, std::abs(addend));
    if (largest == 0) continue;
    const int last_bit = std::ilogb(largest) - 23;
    double exact = cut_off(sum, last_bit);
    for (const float addend : addends) exact += cut_off(addend, last_bit);
    sum = exact == 0 ? 0 : static_cast<float>(cut_off(exact, std::ilogb(exact) - 23));
  }
  return sum;
}

/// Sums in fp16 or bf16, rounded after every addition.
float in_16_bits(std::span<const float> products, reference::WeightType type) {
  float sum = 0;
  for (const float product : products) {
    sum = reference::widen(type, reference::round_to(type, sum + product));
  }
  return sum;
}

struct Simulated {
  reference::Weights weights = reference::Weights::dequantized;
  Sum sum = one_by_one;
  double bias_factor = 1;
  bool rounds_before_bias = false;
  bool rounds_products = false;
};

/// The output of a kernel with this order, [m * n] bits.
std::vector<std::uint16_t> simulate(const reference::Nf4Product& product, const Simulated& kernel) {
  const auto widened = [&](std::uint16_t bits) { return reference::widen(product.type, bits); };
  const auto rounded = [&](float value) { return reference::round_to(product.type, value); };
  std::vector<double> weights(static_cast<std::size_t>(product.n * product.k));
  make_weights(product, kernel.weights, 0, weights);
  std::vector<std::uint16_t> output;
  std::vector<float> products(static_cast<std::size_t>(product.k));
  for (std::int64_t i = 0; i < product.m; ++i) {
    for (std::int64_t j = 0; j < product.n; ++j) {
      for (std::int64_t l = 0; l < product.k; ++l) {
        const auto weight =
            static_cast<float>(weights[static_cast<std::size_t>(j * product.k + l)]);
        const float one =
            weight * widened(product.input[static_cast<std::size_t>(i * product.k + l)]);
        products[static_cast<std::size_t>(l)] =
            kernel.rounds_products ? widened(rounded(one)) : one;
      }
      float sum = kernel.sum(products);
      if (kernel.rounds_before_bias) sum = widened(rounded(sum));
      if (!product.bias.empty()) {
        sum += static_cast<float>(kernel.bias_factor) *
               widened(product.bias[static_cast<std::size_t>(j)]);
      }
      output.push_back(rounded(sum));
    }
  }
  return output;
}

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

std::int64_t count_outside(const ProductData& data, const std::vector<std::uint16_t>& output,
                           Reading reading = Reading::dequantized_weights) {
  const auto sums = product_sums(data.view(), weights_of(reading));
  const auto bounds = product_bounds(data.view(), reading, sums);
  return reference::compare_within(bounds.low, bounds.high, output).mismatches;
}

std::int64_t outside(const ProductData& data, const Simulated& kernel,
                     Reading reading = Reading::dequantized_weights) {
  return count_outside(data, simulate(data.view(), kernel), reading);
}

Sum groups_of(std::size_t group) {
  return [group](std::span<const float> products) { return in_groups(products, group); };
}

TEST(ProductFaults, EveryOrderAndRoundingOfASumIsWithinTheBound) {
  for (const InputData data : all_data) {
    for (const auto type : {WeightType::fp16, WeightType::bf16}) {
      const ProductData product = made(data, type, true, /*nested=*/type == WeightType::bf16);
      for (const Sum& sum : {Sum(one_by_one), Sum(in_lanes), groups_of(4), groups_of(16)}) {
        EXPECT_EQ(outside(product, {.sum = sum}), 0) << product.spec.name();
        EXPECT_EQ(outside(product, {.weights = Weights::rounded_entries, .sum = sum},
                          Reading::rounded_entries),
                  0);
        EXPECT_EQ(
            outside(product, {.sum = sum, .rounds_products = true}, Reading::rounded_products), 0);
      }
    }
  }
}

/// The kernel omits the products of these inputs.
Sum without(std::size_t begin, std::size_t count) {
  return [=](std::span<const float> products) {
    std::vector<float> kept(products.begin(), products.end());
    std::fill_n(kept.begin() + static_cast<std::ptrdiff_t>(begin), count, 0.0f);
    return in_lanes(kept);
  };
}

TEST(ProductFaults, FaultsOfSumsAndBiasesShowOnTheDataThatAreToShowThem) {
  for (const auto type : {WeightType::fp16, WeightType::bf16}) {
    const ProductData normal = made(InputData::normal, type),
                      sparse = made(InputData::sparse, type);
    for (const std::size_t begin : {std::size_t{0}, std::size_t{1024}, std::size_t{k - 16}}) {
      EXPECT_GT(outside(sparse, {.sum = without(begin, 16)}), rows * outputs / 4)
          << "a dropped step of 16 inputs";
    }
    // As if a warp had not written its partial sum before the others add it.
    for (const ProductData* data : {&normal, &sparse}) {
      EXPECT_GT(outside(*data, {.sum = without(k / 2, k / 8)}), rows * outputs / 2)
          << "a part that is lost in a race";
    }
    const Sum in_16 = [type](std::span<const float> products) {
      return in_16_bits(products, type);
    };
    EXPECT_GT(outside(sparse, {.sum = in_16}), rows * outputs / 4) << "sums in 16 bits";
  }
  for (const InputData data : all_data) {
    for (const double factor : {0.0, 2.0}) {
      EXPECT_GT(outside(made(data, WeightType::fp16, true), {.bias_factor = factor}),
                rows * outputs * 3 / 4)
          << "a bias that is added twice or not";
    }
  }
  EXPECT_GT(outside(made(InputData::sparse, WeightType::bf16, true), {.rounds_before_bias = true}),
            rows * outputs / 20)
      << "a bias added to a rounded sum";
}

TEST(ProductFaults, OneWrongScaleShowsOnSparseRows) {
  for (const auto type : {WeightType::fp16, WeightType::bf16}) {
    const ProductData product = made(InputData::sparse, type);
    ProductData wrong = product;
    auto& scales = wrong.matrix.quantized.absmax;
    scales[64 * 5 + 9] = scales[64 * 5 + 10];  // of output 5, the neighbour's
    EXPECT_GT(count_outside(product, simulate(wrong.view(), {})), 0);
    EXPECT_GT(count_outside(product, simulate(wrong.view(), {.weights = Weights::rounded_entries}),
                            Reading::rounded_entries),
              0);
  }
}

/// A weight that is wrong by one bit, or from another reading.
TEST(ProductFaults, WrongWeightsShowOnOneHotRows) {
  ProductData product = made(InputData::one_hot);
  std::vector<std::uint16_t> output = simulate(product.view(), {});
  EXPECT_EQ(count_outside(product, output), 0);
  output[7] ^= 1;
  EXPECT_EQ(count_outside(product, output), 1);
  product.input = make_input(InputData::one_hot, 64, k, WeightType::fp16, 1);
  product.spec.m = 64;
  EXPECT_GT(outside(product, {.weights = Weights::rounded_entries}), 100);
  EXPECT_GT(outside(product, {}, Reading::rounded_entries), 100);
}

ProductSpec small() { return {.weights = {.rows = 24, .columns = 130}, .m = 5, .bias = true}; }

TEST(ProductData, DependsOnItsSpecAndSeedAlone) {
  for (const InputData data : {InputData::normal, InputData::sparse, InputData::one_hot}) {
    ProductSpec spec = small();
    spec.data = data;
    const ProductData one = make_product(spec, 3), again = make_product(spec, 3),
                      other = make_product(spec, 4);
    EXPECT_EQ(one.input, again.input);
    EXPECT_EQ(one.bias, again.bias);
    EXPECT_EQ(one.matrix.expected, again.matrix.expected);
    EXPECT_FALSE(std::equal(one.bias.begin(), one.bias.end(), one.input.begin()));
    EXPECT_NE(one.input, other.input);
    EXPECT_NE(one.bias, other.bias);
    EXPECT_NE(one.matrix.expected, other.matrix.expected);
  }
}

TEST(ProductData, SparseRowsHaveOneInputOfEitherSignInEverySixteen) {
  const auto input = make_input(InputData::sparse, 7, 130, WeightType::fp16, 1);
  const auto is_negative = [](auto bits) { return bits >= 0x8000; };
  const auto negative = std::ranges::count_if(input, is_negative);
  EXPECT_TRUE(negative > 10 && negative < 53) << negative << " of 63";
  for (int row = 0; row < 7; ++row) {
    for (int begin = 0; begin < 130; begin += 16) {
      const auto first = input.begin() + row * 130 + begin;
      const auto last = first + std::min(16, 130 - begin);
      EXPECT_EQ(std::count_if(first, last, [](auto bits) { return bits != 0; }), 1);
      for (auto at = first; at < last; ++at) {
        if (*at == 0) continue;
        const float magnitude = std::abs(reference::widen_fp16(*at));
        EXPECT_TRUE(magnitude >= 1 && magnitude < 2) << magnitude;
      }
    }
  }
}

TEST(ProductData, OneHotRowsHaveOneOneInDifferentPlaces) {
  constexpr int rows = 40, columns = 1000;
  const auto input = make_input(InputData::one_hot, rows, columns, WeightType::bf16, 1);
  std::vector<std::ptrdiff_t> places;
  for (int row = 0; row < rows; ++row) {
    const auto first = input.begin() + row * columns;
    EXPECT_EQ(std::count(first, first + columns, 0), columns - 1);
    places.push_back(std::find(first, first + columns, 0x3f80) - first);
    EXPECT_LT(places.back(), columns);
  }
  std::ranges::sort(places);
  EXPECT_GT(std::unique(places.begin(), places.end()) - places.begin(), rows / 2);
}

}  // namespace
}  // namespace reprolab::nf4_product
