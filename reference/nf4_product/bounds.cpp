#include "reference/nf4_product/bounds.hpp"

#include <algorithm>
#include <cmath>

#include "reference/parallel.hpp"

namespace reprolab::reference {
namespace {

constexpr double fp32_unit = 0x1p-23, fp64_unit = 0x1p-52;
constexpr double smallest_fp32 = 0x1p-126, smallest_fp16 = 0x1p-24;
constexpr double largest_fp32 = 0x1p126, largest_fp16 = 0x1p15;  // with room for what is rounded up

double gamma(double roundings) { return roundings * fp32_unit / (1 - roundings * fp32_unit); }

/// Step 3: relative to the magnitude, from the roundings of the sum.
double relative_bound(Reading reading, WeightType type, double additions) {
  if (reading == Reading::dequantized_weights) return gamma(additions);
  if (reading != Reading::rounded_products) return gamma(additions + 2);
  const double once = 1 + (type == WeightType::fp16 ? 0x1p-11 : 0x1p-8);
  return once * once * once * once * (1 + gamma(additions + 4)) - 1;
}

/// Step 4.
double small_numbers(const Nf4Product& product, Reading reading, const RowOfInputs& row,
                     double additions) {
  double entry = 1;
  for (const float value : product.table) entry = std::max(entry, std::abs(double{value}));
  const double inputs = row.magnitude * entry;
  const auto terms = static_cast<double>(row.nonzero);
  double bound = (2 * terms + additions + 2 + 2 * inputs) * smallest_fp32;
  if (reading == Reading::rounded_products) {
    if (product.type == WeightType::fp16) bound += (2 * inputs + terms) * smallest_fp16;
    bound += inputs * std::abs(double{product.nested_offset}) * fp32_unit;
  }
  return 2 * bound;  // a later addition may be rounded up
}

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

RowBound row_bound(const Nf4Product& product, Reading reading, const RowOfInputs& row,
                   bool has_bias) {
  const auto groups = static_cast<double>((product.k + 3) / 4);
  const double others = std::max(0.0, static_cast<double>(row.nonzero) - 1);
  const double additions = others + std::min(others, groups) + (has_bias ? 1 : 0);
  const bool in_fp16 = reading == Reading::rounded_products && product.type == WeightType::fp16;
  return {.relative = relative_bound(reading, product.type, additions) +
                      static_cast<double>(product.k) * fp64_unit,
          .absolute = small_numbers(product, reading, row, additions),
          .limit = in_fp16 ? largest_fp16 : largest_fp32};
}

Weights weights_of(Reading reading) {
  if (reading == Reading::dequantized_weights) return Weights::dequantized;
  return reading == Reading::rounded_entries ? Weights::rounded_entries : Weights::exact;
}

Bounds product_bounds(const Nf4Product& product, Reading reading, const ProductSums& sums) {
  constexpr float end = std::numeric_limits<float>::infinity();
  const auto rows = rows_of(product);
  Bounds bounds{std::vector<std::uint16_t>(sums.sum.size()),
                std::vector<std::uint16_t>(sums.sum.size())};
  parallel_for(product.m, 1, [&](std::int64_t row, std::int64_t) {
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

}  // namespace reprolab::reference
