// The interval that contains every output of a correct product kernel, for any order of its sums.
// No tolerance is chosen: the interval follows from the kernel's roundings.
//
// Let p_l = input[l] * weight[l] be the products of one output, z the number of inputs of its row
// that are not zero, S = sum |p_l|, X = sum |input[l]|. Adding a zero causes no rounding, so only z
// terms count.
//
// 1. Products. The product of two 16-bit numbers is exact in fp32 (22 bits of fp16, 16 of bf16).
// 2. Sums. A sum of z terms in any order, in any number of parts, is z - 1 additions. The error of
//    each is at most u times the sum of the magnitudes that it adds, which is at most S. An fp32
//    addition rounds to nearest, u = 2^-24. A tensor core adds a group of products to its sum at
//    once: it shifts every addend to the exponent of the largest one and cuts off what falls below
//    the last bit of fp32, which may cost each addend but the largest one 2^-23 of that one, then
//    cuts the sum off to 24 bits, once more 2^-23. It takes 4 products at a time or more. (Fasi,
//    Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ CS 7:e330, of
//    V100, T4 and A100, newer ones keep more bits: Khattak, Mikaitis, arXiv 2512.07004, of H100 and
//    B200 too.) Therefore, with u = 2^-23 and the bias as one more term,
//      a = (z - 1) + min(z - 1, ceil(k / 4)) + 1 of the bias
//    roundings affect a term, and the error of the sum is at most gamma(a) S, where
//    gamma(a) = a u / (1 - a u) (Higham, "Accuracy and stability of numerical algorithms", lemma
//    3.1 and section 4.2).
// 3. Weights. A kernel multiplies by the weights of its reading, and the interval is around their
//    product. The kernel's fp32 roundings of weights add to the roundings of a term:
//      dequantized_weights  0: the weights are 16-bit numbers.
//      rounded_entries      2: entry * scale, and that times the input; or a sum times its scale.
//      rounded_products     Around the exact weights: entry, scale, their product and the product
//                           with the input may each be rounded to 16 bits, v = 2^-11 (fp16) or 2^-8
//                           (bf16) of itself, and of nested scales the product and the sum may be
//                           contracted: (1 + v)^4 (1 + gamma(a + 4)) - 1 in place of gamma.
// 4. Small numbers. A value below 2^-126 may become 0 wherever something is rounded. In
//    rounded_products also a value below the smallest fp16 number, 2^-24, and the change that a
//    contraction makes to a nested scale that is small compared with its offset.
// 5. The output is rounded to nearest once, after the bias is added in fp32. Rounding is monotonic,
//    so the rounded ends of the interval are the ends of what may be written. They are moved
//    outward by an ulp of fp32, for the rounding of fp64 to fp32. Overflow gives infinity, as in
//    the kernel.
// 6. The reference sums in fp64: k 2^-52 S more.
//
// Limits: for 8192 normal inputs gamma S is 1/15 of a typical output, which hides one wrong scale
// of 128, or sums in fp16. Rows with few inputs detect these faults, because a grows with z;
// one-hot rows check each weight separately, to the last bit if it has 16 bits.
// tests/harness/nf4_product_data_test.cpp shows which data detect which fault.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "reference/nf4_product/product.hpp"

namespace reprolab::reference {

/// The weights that a kernel multiplies by, and their roundings.
enum class Reading { dequantized_weights, rounded_entries, rounded_products };

/// In the order of the enumerators.
inline constexpr std::array<std::string_view, 3> reading_names = {
    "dequantized_weights", "rounded_entries", "rounded_products"};

/// The row of activations that an output belongs to.
struct RowOfInputs {
  std::int64_t nonzero = 0;
  double magnitude = 0;  ///< Sum of |input|.
};

/// The maximum distance of the fp32 results for the outputs of one row from the fp64 results.
struct RowBound {
  double relative = 0, absolute = 0;
  double limit = 0;  ///< From this magnitude on, a step may overflow.

  /// `magnitude`: S, with |bias|. Infinity if a step may overflow.
  double of(double magnitude) const {
    if (!(magnitude < limit)) return std::numeric_limits<double>::infinity();
    return relative * magnitude + absolute;
  }
};

/// Reads only k, type, table and nested_offset of the product.
RowBound row_bound(const Nf4Product& product, Reading reading, const RowOfInputs& row,
                   bool has_bias);

/// The weights whose product the interval is around.
Weights weights_of(Reading reading);

/// The bits of the ends, [m * n] each.
struct Bounds {
  std::vector<std::uint16_t> low, high;
};

/// `sums` are computed with weights_of(reading).
Bounds product_bounds(const Nf4Product& product, Reading reading, const ProductSums& sums);

}  // namespace reprolab::reference
