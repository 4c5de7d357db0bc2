#include "harness/nf4_product/product_data.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace reprolab::nf4_product {
namespace {

using reference::WeightType;

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
