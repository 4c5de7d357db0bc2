// How outputs differ from the reference's, and whether the reference quantizes a source tensor to
// the stored codes and scales.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "reference/compare.hpp"
#include "reference/nf4/nf4.hpp"

namespace reprolab::reference {

/// One line: "2 of 4096 weights differ, by at most 1 ULP; first at index 130 (row 2, column 2):
/// block 2, code 9 (0.160930201), scale 0.03125, expected 0x1d26 (0.00502777), actual 0x1d27
/// (0.00503159), 1 ULP apart". `comparison` is a comparison of the tensor's weights with a
/// mismatch; `expected` and `actual` are the bits at the first one.
std::string describe_mismatch(const Comparison& comparison, const QuantizedTensor& tensor,
                              std::uint16_t expected, std::uint16_t actual);

/// One line: "3 of 4096 codes and 1 scales differ"; empty if the reference quantizes `source`,
/// which is [tensor.n] bits of `tensor.type`, to the stored codes and scales (of both levels, when
/// nested). A nested tensor's stored map and offset are taken as given, because the order in which
/// the offset is summed is not part of the format.
std::string describe_quantizer(const QuantizedTensor& tensor,
                               std::span<const std::uint16_t> source);

}  // namespace reprolab::reference
