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
/// '_', and what is too long is cut; "~" and a hash then follow, so that no two tensors share a
/// file. A file of one of these names is always whole. Throws UsageError when one cannot be
/// written.
void dump_mismatch(const std::filesystem::path& directory, const reference::QuantizedTensor& tensor,
                   const std::string& subject, std::span<const std::uint16_t> expected,
                   std::span<const std::uint16_t> actual);

}  // namespace reprolab::verify
