// A product's matrix, activations and bias on the host: the start of every measurement.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/nf4/tensor.hpp"
#include "reference/compare.hpp"
#include "reference/nf4_product/product.hpp"

namespace reprolab::nf4_product {

enum class InputData {
  normal,  ///< Normal values, as in a layer. Only these are timed.
  /// One random input of each 16 consecutive ones is 1 to 2 with either sign; the others are 0. A
  /// sum of few terms has a tight bound, which detects a wrong scale or a missing step.
  sparse,
  one_hot  ///< A single 1 in each row, which selects a column of weights.
};

/// The names on the command line and in result files, in the order of the enumerators.
inline constexpr std::array<std::string_view, 3> input_data_names = {"normal", "sparse", "one_hot"};

constexpr std::string_view name(InputData data) {
  return input_data_names[static_cast<std::size_t>(data)];
}

struct ProductSpec {
  nf4::TensorSpec weights;  ///< Rows: N; columns: K; `output`: the type of all arrays.
  std::int64_t m = 1;       ///< Rows of activations.
  bool bias = false;
  InputData data = InputData::normal;

  std::int64_t n() const { return weights.rows; }
  std::int64_t k() const { return weights.columns; }
  std::int64_t elements() const { return m * n(); }
  /// m x n x k and the format: "8x28672x8192/fp16/b64-nested"; then "/bias", and "/sparse".
  std::string name() const;
  /// Codes, scales, activations and bias, each byte counted once.
  std::uint64_t bytes_read() const;
  std::uint64_t bytes_written() const { return 2 * static_cast<std::uint64_t>(elements()); }
};

/// Bits of [m * k] activations. Depends only on the arguments.
std::vector<std::uint16_t> make_input(InputData data, std::int64_t m, std::int64_t k,
                                      reference::WeightType type, std::uint64_t seed);

struct ProductData {
  ProductSpec spec;
  nf4::Tensor matrix;                ///< `expected`: the dequantized weights, [n * k].
  std::vector<std::uint16_t> input;  ///< [m * k]
  std::vector<std::uint16_t> bias;   ///< [n], or empty

  /// The arguments of the reference; valid as long as this object.
  reference::Nf4Product view() const;
};

/// The bias has normal values, as large as outputs. Depends only on `spec` and `seed`.
ProductData make_product(const ProductSpec& spec, std::uint64_t seed);

/// One line about a comparison with intervals: "3 of 64 outputs lie outside their bound; first at
/// row 1, output 2: expected 0x3c00 (1) or more, actual 0x3b00 (0.875)". `end` is the nearer end of
/// the interval at the first one.
std::string describe_outside(const ProductSpec& spec, const reference::Comparison& comparison,
                             std::uint16_t end, std::uint16_t actual);

}  // namespace reprolab::nf4_product
