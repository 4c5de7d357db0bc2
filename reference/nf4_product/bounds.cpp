#include "reference/nf4_product/bounds.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "reference/parallel.hpp"

namespace reprolab::reference {
namespace {

/// The nearest fp32 number, moved an ulp towards `end`.
float moved(double value, float end) { return std::nextafter(static_cast<float>(value), end); }

std::vector<RowOfInputs> rows_of(const Nf4Product& product) {
  std::vector<RowOfInputs> rows(static_cast<std::size_t>(product.m));
  for (std::int64_t i = 0; i < product.m * product.k; ++i) {
    const double input = widen(product.type, product.input[static_cast<std::size_t>(i)]);
    RowOfInputs& row = rows[static_cast<std::size_t>(i / product.k)];
    row.nonzero += input != 0;
    row.magnitude += std::abs(input);
  }
  return rows;
}

}  // namespace

Weights weights_of(Reading reading) {
  if (reading == Reading::dequantized_weights) return Weights::dequantized;
  return reading == Reading::rounded_entries ? Weights::rounded_entries : Weights::exact;
}

Bounds product_bounds(const Nf4Product& product, Reading reading, const ProductSums& sums,
                      int threads) {
  constexpr float end = std::numeric_limits<float>::infinity();
  const auto rows = rows_of(product);
  Bounds bounds{std::vector<std::uint16_t>(sums.sum.size()),
                std::vector<std::uint16_t>(sums.sum.size())};
  parallel_for(product.m, 1, threads, [&](std::int64_t row, std::int64_t) {
    const RowOfInputs& inputs = rows[static_cast<std::size_t>(row)];
    const std::array by_bias{row_bound(product, reading, inputs, false),
                             row_bound(product, reading, inputs, true)};
    for (std::int64_t column = 0; column < product.n; ++column) {
      const auto at = static_cast<std::size_t>(row * product.n + column);
      const double bias =
          product.bias.empty()
              ? 0
              : double{widen(product.type, product.bias[static_cast<std::size_t>(column)])};
      const double value = sums.sum[at] + bias;
      const double error = by_bias[bias != 0].of(sums.magnitude[at] + std::abs(bias));
      bounds.low[at] = round_to(product.type, moved(value - error, -end));
      bounds.high[at] = round_to(product.type, moved(value + error, end));
    }
  });
  return bounds;
}

Bounds product_bounds(const Nf4Product& product, Reading reading, int threads) {
  return product_bounds(product, reading, product_sums(product, weights_of(reading), threads),
                        threads);
}

}  // namespace reprolab::reference
