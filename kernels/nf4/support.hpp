// Common requirements of NF4 kernels.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "kernels/definition.hpp"
#include "kernels/nf4/format.hpp"
#include "kernels/nf4/problem.hpp"

namespace reprolab::nf4 {

/// Weights that a grid covers if a block takes 256. Every kernel's block takes at least as many.
inline constexpr std::int64_t max_weights = 256 * max_blocks;

/// Yes for every valid problem that a grid covers and whose table is the standard one, bit for bit:
/// the published kernels have that table in their code and never read a checkpoint's `quant_map`.
inline Support supports_standard_table(const Problem& problem) {
  const auto bits = [](const auto& table) {
    return std::bit_cast<std::array<std::uint32_t, 16>>(table);
  };
  if (problem.n > max_weights) {
    return Support::no("a grid has blocks for 2^39 - 256 weights at most");
  }
  if (bits(problem.table) != bits(standard_table())) {
    return Support::no("the checkpoint's quant_map is not the NF4 table built into the kernel");
  }
  return Support::yes();
}

/// The same, for kernels that store two weights at once.
inline Support supports_packed_stores(const Problem& problem) {
  if (reinterpret_cast<std::uintptr_t>(problem.output) % 4 != 0) {
    return Support::no("stores two weights at once: the output must be 4-byte aligned");
  }
  return supports_standard_table(problem);
}

}  // namespace reprolab::nf4
