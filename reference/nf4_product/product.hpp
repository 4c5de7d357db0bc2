// The product of activations and NF4 weights in fp64; bounds.hpp accounts for its error.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/nf4/nf4.hpp"

namespace reprolab::reference {

/// output[i][j] = sum over l of input[i][l] * weight[j][l], + bias[j]. Names as in GEMM; all arrays
/// are row-major. A block of weights may reach from one row of weights into the next. Non-owning
/// views; all numbers are finite.
struct Nf4Product {
  std::int64_t m = 0;                     ///< Rows of activations.
  std::int64_t n = 0;                     ///< Outputs per row: rows of weights.
  std::int64_t k = 0;                     ///< Inputs per row: columns of weights.
  WeightType type = WeightType::fp16;     ///< Type of activations, bias, weights and output.
  std::span<const std::uint8_t> codes{};  ///< [code_bytes(n * k)]
  std::span<const float> absmax{};        ///< [block_count(n * k)], decoded when nested
  Nf4Table table = standard_table;
  int block_size = 64;
  float nested_offset = 0;                 ///< Offset of nested scales; 0 for plain ones.
  std::span<const std::uint16_t> input{};  ///< [m * k] bits
  std::span<const std::uint16_t> bias{};   ///< [n] bits, or empty
};

/// The weights computed from a code and a scale.
enum class Weights {
  dequantized,      ///< round16(entry * scale): the bits that dequantize() writes.
  rounded_entries,  ///< round16(entry) * scale, unrounded.
  exact             ///< entry * scale, unrounded.
};

/// Writes weights [first, first + weights.size()) of the product's matrix. fp64 holds each exactly.
void make_weights(const Nf4Product& product, Weights which, std::int64_t first,
                  std::span<double> weights);

/// For each element of the output, without bias, [m * n]: the sum of its products, and the sum of
/// their magnitudes.
struct ProductSums {
  std::vector<double> sum, magnitude;
};

/// Throws std::invalid_argument if the sizes disagree.
ProductSums product_sums(const Nf4Product& product, Weights which);

}  // namespace reprolab::reference
