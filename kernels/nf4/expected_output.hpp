// Dequantization on the host with the kernels' decode step, for kernels that declare a deviation.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/nf4/format.hpp"
#include "kernels/nf4/problem.hpp"

namespace reprolab::nf4 {

/// Writes elements [begin, end) of `host.output`; `scale_of(i)` is the scale of weight i.
template <class ScaleOf>
void write_expected(const Problem& host, std::int64_t begin, std::int64_t end, ScaleOf scale_of) {
  const auto write_as = [&](auto* output) {
    using Out = std::remove_pointer_t<decltype(output)>;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint8_t byte = host.codes[i / 2];
      const unsigned code = i % 2 == 0 ? first_code(byte) : second_code(byte);
      output[i] = round_to<Out>(scaled(table_entry(static_cast<int>(code)), scale_of(i)));
    }
  };
  host.output_type == OutputType::fp16 ? write_as(static_cast<__half*>(host.output))
                                       : write_as(static_cast<__nv_bfloat16*>(host.output));
}

/// The scale of a quantization block; `nested` turns map entry, second-level absmax and offset into
/// a scale, as nested_scale() does.
template <class Nested>
float host_scale(const Problem& host, std::int64_t block, Nested nested) {
  if (!host.is_nested()) return host.absmax[block];
  return nested(host.nested.map[host.nested.codes[block]],
                host.nested.absmax[block / host.nested.block_size], host.nested.offset);
}

}  // namespace reprolab::nf4
