// The reference's error bound of each row of activations. Needs no CUDA: the CPU tests' substitute
// for the library has it, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "reference/nf4_product/error_bound.hpp"

namespace reprolab::dropin {

/// The bounds hold for weights that are rounded in any way that a contract allows.
inline void write_row_bounds(reference::WeightType type, std::span<const std::int64_t> nonzero,
                             const double* magnitude, float offset, std::int64_t k,
                             double* relative, double* absolute, double* limit) {
  const reference::Nf4Product product{.k = k, .type = type, .nested_offset = offset};
  const auto bound_of = [&](const reference::RowOfInputs& row) {
    return reference::row_bound(product, reference::Reading::rounded_products, row, false);
  };
  for (std::size_t i = 0; i < nonzero.size(); ++i) {
    const auto bound = bound_of({nonzero[i], magnitude[i]});
    relative[i] = bound.relative;
    absolute[i] = bound.absolute;
  }
  *limit = bound_of({}).limit;
}

}  // namespace reprolab::dropin
