// A full description of the first mismatch in an NF4 output.
#pragma once

#include <cstdint>
#include <string>

#include "reference/compare.hpp"
#include "reference/nf4/quantized_tensor.hpp"

namespace reprolab::reference {

/// One line: "2 of 4096 weights differ, by at most 1 ULP; first at index 130 (row 2, column 2):
/// block 2, code 9 (0.160930201), scale 0.03125, expected 0x1d26 (0.00502777), actual 0x1d27
/// (0.00503159), 1 ULP apart". `comparison` is a comparison of the tensor's weights with a
/// mismatch; `expected` and `actual` are the bits at the first one.
std::string describe_mismatch(const Comparison& comparison, const QuantizedTensor& tensor,
                              std::uint16_t expected, std::uint16_t actual);

}  // namespace reprolab::reference
