// The problem that a product kernel is given: a 4-bit layer as bitsandbytes holds it, and the rows
// that go through it. Non-owning views of device memory.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/nf4/problem.hpp"

namespace reprolab::nf4_product {

/// output[i][j] = round16(sum over l of input[i][l] * weight[j][l], + bias[j]), where
/// weight[j][l] = table[code(j * k + l)] * scale of its block. Names as in GEMM: m rows of
/// activations, n outputs per row, k inputs per row; all arrays are row-major. A block of
/// `block_size` weights may reach from one row of weights into the next, as in bitsandbytes, which
/// quantizes the flattened matrix. Arrays are aligned to their elements; a kernel that needs more
/// checks it in its `supports`.
/// Launches of one plan (Kernel::plan) may differ in `input`, `output`, `workspace` and
/// `weights_ready`.
struct Problem {
  static constexpr const char* family = "nf4_product";  ///< Its folder.

  const std::uint8_t* codes = nullptr;  ///< [ceil(n * k / 2)], two per byte, high nibble first.
  const float* absmax = nullptr;        ///< [ceil(n * k / block_size)]; null when `nested` is used.
  nf4::NestedScales nested;             ///< `nested.codes` is null when `absmax` is used.
  std::array<float, 16> table{};        ///< The checkpoint's `quant_map`.
  int block_size = 64;                  ///< Weights per scale; a power of two, 32 to 4096.
  const void* input = nullptr;          ///< [m][k] of `type`.
  const void* bias = nullptr;           ///< [n] of `type`, or null.
  void* output = nullptr;               ///< [m][n] of `type`.
  std::int64_t m = 0, n = 0, k = 0;
  nf4::OutputType type = nf4::OutputType::fp16;
  /// Memory of the caller for Kernel::workspace_bytes(), aligned to 16 bytes, with any content.
  void* workspace = nullptr;
  /// Codes and scales were complete before the previous launch in the stream started, as those of
  /// a loaded model are: a kernel may read them before that launch has completed.
  bool weights_ready = false;
  /// [n][k] of `type`: the weights as dequantization writes them, for the kernel that multiplies
  /// by 16-bit weights; null for all others.
  const void* weights = nullptr;

  bool is_nested() const { return nested.codes != nullptr; }
};

// Which weights a kernel multiplies by, and what it rounds. A kernel's WithinBound names one, and
// reference/nf4_product/bounds.hpp proves the interval of each.

/// The 16-bit weights that dequantization writes, bit for bit; their products and sums in fp32.
inline constexpr const char* dequantized_weights = "dequantized_weights";

/// The table's entries rounded to 16 bits, times the fp32 scale, before or after a sum; all
/// products and sums in fp32.
inline constexpr const char* rounded_entries = "rounded_entries";

/// Entries, scales, their products, and the products with the activations, each rounded to 16 bits,
/// or not; sums in fp32.
inline constexpr const char* rounded_products = "rounded_products";

}  // namespace reprolab::nf4_product
