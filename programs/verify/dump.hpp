// Both sides of a mismatch, as NumPy files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "reference/nf4/quantized_tensor.hpp"

namespace reprolab::verify {

/// Writes DIR/TENSOR.SUBJECT.expected.npy and .actual.npy, fp16 as '<f2'; NumPy has no bf16, so its
/// bits are written as '<u2'. In TENSOR.SUBJECT, characters that do not belong in file names become
/// '_', and long names are cut; "~" and a hash are then added, so that no two tensors share a file.
/// Files are written whole or not at all. Throws UsageError when a file cannot be written.
void dump_mismatch(const std::filesystem::path& directory, const reference::QuantizedTensor& tensor,
                   const std::string& subject, std::span<const std::uint16_t> expected,
                   std::span<const std::uint16_t> actual);

}  // namespace reprolab::verify
