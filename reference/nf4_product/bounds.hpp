// The interval in which every output of a correct product kernel lies, whatever the order in which
// it sums. No tolerance is chosen: all follows from what the kernel rounds.
//
// Let p_l = input[l] * weight[l] be the products of one output, z the number of inputs of its row
// that are not zero, S = sum |p_l|, X = sum |input[l]|. Adding a zero rounds nothing, so only z
// terms count.
//
// 1. Products. Those of two 16-bit numbers are exact in fp32 (22 bits of fp16, 16 of bf16).
// 2. Sums. A sum of z terms in any order, in any number of parts, is z - 1 additions. Each is wrong
//    by at most u times the magnitude of all that it adds up, of which S is the largest. An fp32
//    addition rounds to nearest, u = 2^-24. A tensor core adds a group of products to its sum at
//    once: it shifts every addend to the exponent of the largest one and cuts off what falls below
//    the last bit of fp32, which may cost each addend but the largest one 2^-23 of that one, then
//    cuts the sum off to 24 bits, once more 2^-23. It takes 4 products at a time or more. (Fasi,
//    Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ CS 7:e330, of
//    V100, T4 and A100, newer ones keep more bits: Khattak, Mikaitis, arXiv 2512.07004, of H100 and
//    B200 too.) So with u = 2^-23, and the bias as one more term,
//      a = (z - 1) + min(z - 1, ceil(k / 4)) + 1 of the bias
//    roundings reach a term, and the sum is wrong by at most gamma(a) S, gamma(a) = a u / (1 - a u)
//    (Higham, "Accuracy and stability of numerical algorithms", lemma 3.1 and section 4.2).
// 3. Weights. A kernel multiplies by the weights of its reading, and the interval lies around their
//    product. What it rounds of them in fp32 adds to the roundings of a term:
//      dequantized_weights  0: the weights are 16-bit numbers.
//      rounded_entries      2: entry * scale, and that times the input; or a sum times its scale.
//      rounded_products     Around the exact weights: entry, scale, their product and the product
//                           with the input may each be rounded to 16 bits, v = 2^-11 (fp16) or 2^-8
//                           (bf16) of itself, and of nested scales the product and the sum may be
//                           contracted: (1 + v)^4 (1 + gamma(a + 4)) - 1 in place of gamma.
// 4. Small numbers. What falls below 2^-126 may become 0 wherever something is rounded. In
//    rounded_products also what falls below the smallest fp16 number, 2^-24, and what a contracted
//    nested scale moves that is small beside its offset.
// 5. The output is rounded to nearest once, the bias added before in fp32. Rounding is
//    monotonic, so the ends of the interval, rounded, are the ends of what may be written. They are
//    moved outward by an ulp of fp32, for the rounding of fp64 to fp32. Overflow gives infinity, as
//    in the kernel.
// 6. The reference sums in fp64: k 2^-52 S more.
//
// What it cannot see: on 8192 normal inputs gamma S is 1/15 of a typical output, and one wrong
// scale of 128, or sums in fp16, hide below that. Rows with few inputs show them, because a follows
// z; one-hot rows show every weight by itself, to the last bit where it is a 16-bit one. Which data
// show which fault: tests/harness/nf4_product/faults_test.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/names.hpp"
#include "reference/nf4_product/product.hpp"

namespace reprolab::reference {

/// By which weights, rounded how, a kernel computes.
enum class Reading { dequantized_weights, rounded_entries, rounded_products };

/// In the order of the enumerators.
inline constexpr std::array<std::string_view, 3> reading_names = {
    "dequantized_weights", "rounded_entries", "rounded_products"};

inline Reading reading_named(std::string_view name) {
  return value_named<Reading>(reading_names, name);
}

/// The weights around whose product the interval lies.
Weights weights_of(Reading reading);

/// The row of activations that an output belongs to.
struct RowOfInputs {
  std::int64_t nonzero = 0;
  double magnitude = 0;  ///< Sum of |input|.
};

/// How far the fp32 result for one output may be from the fp64 one; infinity where a step may
/// overflow. `magnitude` is S without the bias.
double error_bound(const Nf4Product& product, Reading reading, const RowOfInputs& row,
                   double magnitude, double bias);

/// The bits of the ends, [m * n] each.
struct Bounds {
  std::vector<std::uint16_t> low, high;
};

/// `sums` are those of weights_of(reading).
Bounds product_bounds(const Nf4Product& product, Reading reading, const ProductSums& sums,
                      int threads = 0);

/// Throws std::invalid_argument if the sizes disagree.
Bounds product_bounds(const Nf4Product& product, Reading reading, int threads = 0);

}  // namespace reprolab::reference
