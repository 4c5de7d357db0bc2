// Checks whether the reference quantizes a source tensor to the stored codes and scales.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "reference/nf4/quantized_tensor.hpp"

namespace reprolab::reference {

/// Numbers of differences from the stored tensor. The GPU quantizer uses an approximate reciprocal
/// (within one ULP) and flushes subnormals to zero; a CPU quantizer does neither. Code differences
/// that come only from this are explained.
struct QuantizerCheck {
  std::int64_t weights = 0;
  std::int64_t from_subnormals = 0;  ///< The weight or its scale is a subnormal fp32 number.
  std::int64_t from_reciprocal = 0;  ///< A reciprocal one ULP away gives the stored code.
  std::int64_t unexplained = 0;      ///< Codes that differ otherwise.
  std::int64_t scales = 0;  ///< Scales (of both levels, when nested) that differ: never explained.

  std::int64_t explained() const { return from_subnormals + from_reciprocal; }
  bool equal() const { return explained() == 0 && !wrong(); }
  bool wrong() const { return unexplained != 0 || scales != 0; }
};

/// `source` [tensor.n] bits of `tensor.type`. For a nested tensor the stored map and offset are
/// taken as given, because the order in which the offset is summed is not part of the format.
QuantizerCheck check_quantizer(const QuantizedTensor& tensor, std::span<const std::uint16_t> source,
                               int threads = 0);

/// "3 of 4096 codes differ: 3 explained by subnormals, ..."; empty when equal.
std::string describe(const QuantizerCheck& check);

}  // namespace reprolab::reference
