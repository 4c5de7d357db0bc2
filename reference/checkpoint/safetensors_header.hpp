// The JSON header of a safetensors file: {"NAME": {"dtype": "F32", "shape": [2, 3],
// "data_offsets": [0, 24]}, ..., "__metadata__": {"KEY": "TEXT", ...}}.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "reference/checkpoint/safetensors.hpp"

namespace reprolab::reference {

/// What is wrong with an entry of the header: the predicate of a sentence about it.
struct InvalidEntry : std::runtime_error {
  InvalidEntry(std::string entry, const std::string& fault)
      : std::runtime_error(fault), entry(std::move(entry)) {}
  std::string entry;
};

/// The tensors in the order of the header, checked one by one; `offset_bytes` is relative to the
/// start of the data, which are `data_bytes` long. No blank may come before the object, as the
/// format has it. One pass; needs memory in proportion to `text`.
/// Throws InvalidJson, or InvalidEntry for the first entry that is wrong.
std::vector<TensorInfo> parse_safetensors_header(std::string_view text, std::uint64_t data_bytes);

}  // namespace reprolab::reference
