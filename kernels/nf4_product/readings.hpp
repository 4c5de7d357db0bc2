// Which weights a product kernel multiplies by, and what it rounds: a kernel's WithinBound names
// one of these, and reference/nf4_product/bounds.hpp proves the interval of each.
#pragma once

namespace reprolab::nf4_product {

/// The 16-bit weights that dequantization writes, bit for bit; their products and sums in fp32.
inline constexpr const char* dequantized_weights = "dequantized_weights";

/// The table's entries rounded to 16 bits, times the fp32 scale, before or after a sum; all
/// products and sums in fp32.
inline constexpr const char* rounded_entries = "rounded_entries";

/// The fp32 entries times the fp32 scale; all products and sums in fp32.
inline constexpr const char* fp32_weights = "fp32_weights";

/// Entries, scales, their products, and the products with the activations, each rounded to 16 bits,
/// or not; sums in fp32.
inline constexpr const char* rounded_products = "rounded_products";

}  // namespace reprolab::nf4_product
