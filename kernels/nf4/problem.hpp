// The problem that an NF4 dequantization kernel is given: non-owning views of device memory.
#pragma once

#include <array>
#include <cstdint>

namespace reprolab::nf4 {

enum class OutputType { fp16, bf16 };

/// Double quantization: the scales are themselves quantized.
///   absmax[b] = round(round(map[codes[b]] * absmax[b / block_size]) + offset)   (fp32)
struct NestedScales {
  const std::uint8_t* codes = nullptr;  ///< [blocks]
  const float* map = nullptr;           ///< [256]
  const float* absmax = nullptr;        ///< [ceil(blocks / block_size)]
  float offset = 0;
  int block_size = 256;  ///< Scales per second-level scale; a power of two.
};

/// Dequantize `n` weights: output[i] = round16(table[code(i)] * absmax[i / block_size]).
/// Nothing outside any array may be read or written. `n` may be 0. Arrays are aligned to their
/// elements; a kernel that needs more says so in its `supports`.
struct Problem {
  static constexpr const char* family = "nf4";  ///< Its folder.

  const std::uint8_t* codes = nullptr;  ///< [ceil(n / 2)], two codes per byte, high nibble first.
  const float* absmax = nullptr;        ///< [ceil(n / block_size)]; null when `nested` is used.
  NestedScales nested;                  ///< `nested.codes` is null when `absmax` is used.
  std::array<float, 16> table{};        ///< The checkpoint's `quant_map`.
  std::int64_t n = 0;                   ///< Number of weights; may exceed 2^31.
  int block_size = 64;                  ///< Weights per scale; a power of two, 32 to 4096.
  void* output = nullptr;               ///< [n] of `output_type`.
  OutputType output_type = OutputType::fp16;

  bool is_nested() const { return nested.codes != nullptr; }
};

}  // namespace reprolab::nf4
