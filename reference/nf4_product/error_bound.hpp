// The largest error of a correct product kernel, which bounds.hpp derives. Apart from the intervals
// because the drop-in library has it, too, without the fp64 product.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

#include "reference/names.hpp"
#include "reference/nf4_product/product.hpp"

namespace reprolab::reference {

/// The weights that a kernel multiplies by, and their roundings.
enum class Reading { dequantized_weights, rounded_entries, rounded_products };

/// In the order of the enumerators.
inline constexpr std::array<std::string_view, 3> reading_names = {
    "dequantized_weights", "rounded_entries", "rounded_products"};

inline Reading reading_named(std::string_view name) {
  return value_named<Reading>(reading_names, name);
}

/// The row of activations that an output belongs to.
struct RowOfInputs {
  std::int64_t nonzero = 0;
  double magnitude = 0;  ///< Sum of |input|.
};

/// The maximum distance of the fp32 results for the outputs of one row from the fp64 results.
struct RowBound {
  double relative = 0, absolute = 0;
  double limit = 0;  ///< From this magnitude on, a step may overflow.

  /// `magnitude`: S, with |bias|.
  double of(double magnitude) const {
    if (!(magnitude < limit)) return std::numeric_limits<double>::infinity();
    return relative * magnitude + absolute;
  }
};

/// Reads only k, type, table and nested_offset of the product.
RowBound row_bound(const Nf4Product& product, Reading reading, const RowOfInputs& row,
                   bool has_bias);

/// Maximum distance of the fp32 result for one output from the fp64 result; infinity if a step may
/// overflow. `magnitude` is S without the bias.
double error_bound(const Nf4Product& product, Reading reading, const RowOfInputs& row,
                   double magnitude, double bias);

}  // namespace reprolab::reference
