// Product kernels simulated on the CPU: right ones that sum in different orders and roundings, and
// faults.
#pragma once

#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include "harness/nf4_product/product_data.hpp"

namespace reprolab::nf4_product {

/// How one output's products are summed.
using Sum = std::function<float(std::span<const float> products)>;

inline float one_by_one(std::span<const float> products) {
  float sum = 0;
  for (const float product : products) sum += product;
  return sum;
}

/// Every 32nd product, as lanes sum, then pairs of the 32 sums.
inline float in_lanes(std::span<const float> products) {
  float lanes[32] = {};
  for (std::size_t i = 0; i < products.size(); ++i) lanes[i % 32] += products[i];
  for (int step = 16; step > 0; step /= 2) {
    for (int lane = 0; lane < step; ++lane) lanes[lane] += lanes[lane + step];
  }
  return lanes[0];
}

/// `value` without what is below the bit of weight 2^exponent.
inline double cut_off(double value, int exponent) {
  return std::ldexp(std::trunc(std::ldexp(value, -exponent)), exponent);
}

/// As a tensor core sums: groups of `group` products and the sum so far, all cut off 23 bits below
/// the first bit of the largest, with no bits to spare; so is their sum.
inline float in_groups(std::span<const float> products, std::size_t group) {
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
inline float in_16_bits(std::span<const float> products, reference::WeightType type) {
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

/// The output of such a kernel, [m * n] bits.
inline std::vector<std::uint16_t> simulate(const reference::Nf4Product& product,
                                           const Simulated& kernel) {
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

}  // namespace reprolab::nf4_product
