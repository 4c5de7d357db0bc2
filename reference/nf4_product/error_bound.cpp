#include "reference/nf4_product/error_bound.hpp"

#include <algorithm>
#include <cmath>

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

double error_bound(const Nf4Product& product, Reading reading, const RowOfInputs& row,
                   double magnitude, double bias) {
  return row_bound(product, reading, row, bias != 0).of(magnitude + std::abs(bias));
}

}  // namespace reprolab::reference
