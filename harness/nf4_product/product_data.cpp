#include "harness/nf4_product/product_data.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "reference/nf4/nf4.hpp"

namespace reprolab::nf4_product {
namespace {

constexpr std::int64_t inputs_per_nonzero = 16;  // no step of a matrix instruction is shorter

/// A hash of both: each bit depends on all bits of both.
std::uint64_t mixed(std::uint64_t seed, std::uint64_t index) {
  return reference::mix(seed * 0x2545f4914f6cdd1du + (index + 1) * 0x9e3779b97f4a7c15u);
}

void make_sparse(std::int64_t k, reference::WeightType type, std::uint64_t seed,
                 std::vector<std::uint16_t>& input) {
  const auto rows = static_cast<std::int64_t>(input.size()) / k;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t begin = 0; begin < k; begin += inputs_per_nonzero) {
      const std::uint64_t bits = mixed(seed, static_cast<std::uint64_t>(row * k + begin));
      const std::int64_t length = std::min(inputs_per_nonzero, k - begin);
      const std::int64_t at = begin + static_cast<std::int64_t>((bits >> 8) % length);
      const float magnitude = 1 + 0.125f * static_cast<float>(bits >> 1 & 7);
      input[static_cast<std::size_t>(row * k + at)] =
          reference::round_to(type, (bits & 1) != 0 ? -magnitude : magnitude);
    }
  }
}

void make_one_hot(std::int64_t k, reference::WeightType type, std::uint64_t seed,
                  std::vector<std::uint16_t>& input) {
  const auto rows = static_cast<std::int64_t>(input.size()) / k;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto column = static_cast<std::int64_t>(mixed(seed, static_cast<std::uint64_t>(row)) %
                                                  static_cast<std::uint64_t>(k));
    input[static_cast<std::size_t>(row * k + column)] = reference::round_to(type, 1.0f);
  }
}

}  // namespace

std::string ProductSpec::name() const {
  return fmt::format("{}x{}x{}/{}{}{}{}", m, n(), k(), weights.format(), bias ? "/bias" : "",
                     data == InputData::normal ? "" : "/",
                     data == InputData::normal ? "" : nf4_product::name(data));
}

std::uint64_t ProductSpec::bytes_read() const {
  return weights.bytes_read() + 2 * static_cast<std::uint64_t>(m * k() + (bias ? n() : 0));
}

std::vector<std::uint16_t> make_input(InputData data, std::int64_t m, std::int64_t k,
                                      reference::WeightType type, std::uint64_t seed) {
  std::vector<std::uint16_t> input(static_cast<std::size_t>(m * k));
  switch (data) {
    case InputData::normal:
      reference::normal_weights(seed, 0, type, 1.0f, input);
      break;
    case InputData::sparse:
      make_sparse(k, type, seed, input);
      break;
    case InputData::one_hot:
      make_one_hot(k, type, seed, input);
      break;
  }
  return input;
}

ProductData make_product(const ProductSpec& spec, std::uint64_t seed) {
  const auto type = spec.weights.output;
  // Seeds different from the matrix's, whose values are also normal.
  ProductData data{.spec = spec,
                   .matrix = nf4::make_tensor(spec.weights, seed),
                   .input = make_input(spec.data, spec.m, spec.k(), type, mixed(seed, 0)),
                   .bias = {}};
  if (spec.bias) data.bias = make_input(InputData::normal, 1, spec.n(), type, mixed(seed, 1));
  return data;
}

reference::Nf4Product ProductData::view() const {
  const auto& quantized = matrix.quantized;
  return {.m = spec.m,
          .n = spec.n(),
          .k = spec.k(),
          .type = quantized.type,
          .codes = quantized.codes,
          .absmax = quantized.absmax,
          .table = quantized.table,
          .block_size = quantized.block_size,
          .nested_offset = quantized.nested ? quantized.nested->offset : 0,
          .input = input,
          .bias = bias};
}

std::string describe_outside(const ProductSpec& spec, const reference::Comparison& comparison,
                             std::uint16_t end, std::uint16_t actual) {
  const auto value = [&](std::uint16_t bits) {
    return fmt::format("{:#06x} ({:.8g})", bits, reference::widen(spec.weights.output, bits));
  };
  const bool below = reference::in_order(actual) < reference::in_order(end);
  return fmt::format(
      "{} of {} outputs lie outside their bound; first at row {}, output {}: expected {} or {}, "
      "actual {}",
      comparison.mismatches, spec.elements(), comparison.first_mismatch / spec.n(),
      comparison.first_mismatch % spec.n(), value(end), below ? "more" : "less", value(actual));
}

}  // namespace reprolab::nf4_product
