// One quantized weight in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reference/nf4/nested_scales.hpp"
#include "reference/nf4/nf4.hpp"

namespace reprolab::reference {

struct QuantizedTensor {
  std::string name{};
  std::vector<std::int64_t> shape{};  ///< Empty when unknown.
  std::int64_t n = 0;                 ///< Number of weights.
  int block_size = 64;
  WeightType type = WeightType::fp16;  ///< Type of the dequantized weights.
  Nf4Table table = standard_table;     ///< The values of the codes.
  std::vector<std::uint8_t> codes{};   ///< [code_bytes(n)]
  std::vector<float> absmax{};         ///< [block_count(n)]; decoded from `nested` if that is set.
  std::optional<NestedScales> nested{};  ///< The scales as stored, when doubly quantized.
};

/// All of a tensor's weights, dequantized by the reference: [tensor.n] bits of `tensor.type`.
inline std::vector<std::uint16_t> dequantize(const QuantizedTensor& tensor, int threads = 0) {
  std::vector<std::uint16_t> output(static_cast<std::size_t>(tensor.n));
  dequantize(tensor.codes, tensor.absmax, tensor.table, tensor.block_size, tensor.type, output,
             threads);
  return output;
}

}  // namespace reprolab::reference
