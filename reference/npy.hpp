// Arrays of 16-bit weights as NumPy files (format version 1.0).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "reference/float16.hpp"

namespace reprolab::reference {

/// Writes fp16 as '<f2'. NumPy has no bf16, so its bits are written as '<u2'. The file is written
/// next to the target under a temporary name and renamed, so that a file of this name is always
/// whole. Throws std::runtime_error if it cannot be written.
void write_npy(const std::filesystem::path& path, WeightType type,
               const std::vector<std::int64_t>& shape, std::span<const std::uint16_t> bits);

}  // namespace reprolab::reference
