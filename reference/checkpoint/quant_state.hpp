// The JSON text that bitsandbytes stores with each quantized weight.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "reference/float16.hpp"

namespace reprolab::reference {

struct QuantState {
  std::vector<std::int64_t> shape;  ///< Shape of the weight before quantization.
  std::int64_t elements = 0;        ///< Product of `shape`.
  int block_size = 0;               ///< Weights per scale; a power of two, 32 to 4096.
  std::optional<WeightType> type;   ///< Type of the outputs; none for fp32, which is not verified.
  bool nested = false;  ///< The scales are themselves quantized; the next two members apply.
  int nested_block_size = 0;
  float nested_offset = 0;  ///< May be infinite, if the absmax of a block overflowed.
};

/// Throws InvalidJson (strict_json.hpp). Accepts `Infinity`, which is not valid JSON, because
/// Python writes it.
QuantState parse_quant_state(std::string_view text);

}  // namespace reprolab::reference
