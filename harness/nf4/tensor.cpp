#include "harness/nf4/tensor.hpp"

#include <fmt/core.h>

#include "reference/nf4/normal_weights.hpp"

namespace reprolab::nf4 {

namespace {

constexpr int nested_block_size = 256;
constexpr float weight_deviation = 0.02f;  // of the order of that in trained linear layers

}  // namespace

std::string TensorSpec::format() const {
  return fmt::format("{}/b{}{}{}{}{}", reference::name(output), block_size, nested ? "-nested" : "",
                     data == CodeData::normal ? "" : "/",
                     data == CodeData::normal ? "" : name(data),
                     offset == 0 ? "" : fmt::format("/offset{}", offset));
}

std::uint64_t TensorSpec::bytes_read() const {
  const std::int64_t blocks = reference::block_count(weights(), block_size);
  const std::int64_t scales =
      nested ? blocks + 4 * reference::block_count(blocks, nested_block_size) : 4 * blocks;
  return static_cast<std::uint64_t>(reference::code_bytes(weights()) + scales);
}

std::uint64_t TensorSpec::bytes_written() const {
  return 2 * static_cast<std::uint64_t>(weights());
}

Tensor make_tensor(const TensorSpec& spec, std::uint64_t seed) {
  const std::int64_t n = spec.weights();
  reference::QuantizedTensor quantized{.name = spec.format(),
                                       .shape = {spec.rows, spec.columns},
                                       .n = n,
                                       .block_size = spec.block_size,
                                       .type = spec.output,
                                       .table = reference::standard_table};
  quantized.codes.resize(static_cast<std::size_t>(reference::code_bytes(n)));
  quantized.absmax.resize(static_cast<std::size_t>(reference::block_count(n, spec.block_size)));
  std::vector<std::uint16_t> weights(static_cast<std::size_t>(n));
  reference::normal_weights(seed, 0, spec.output, weight_deviation, weights);
  reference::quantize(weights, spec.output, spec.block_size, quantized.codes, quantized.absmax);
  replace_codes(spec.data, seed, n, quantized.codes);
  if (spec.nested) {
    quantized.nested = reference::quantize_scales(quantized.absmax);
    reference::dequantize_scales(*quantized.nested, quantized.absmax);
  }
  auto expected = reference::dequantize(quantized);
  return {std::move(quantized), std::move(expected)};
}

}  // namespace reprolab::nf4
