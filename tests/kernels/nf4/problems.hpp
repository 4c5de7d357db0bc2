// The tensors on which NF4 kernels are tested, on a GPU and on the CPU.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "harness/nf4/tensor.hpp"
#include "reference/float16.hpp"
#include "reference/nf4/nf4.hpp"

namespace reprolab::nf4 {

/// Ends and interiors of every unit that a kernel works in: byte, block, warp, tile, grid.
inline constexpr std::int64_t lengths[] = {1,   2,    31,   63,   64,   65,   127,   511,    512,
                                           513, 1023, 1024, 1025, 2047, 4097, 65537, 1000003};
inline constexpr int block_sizes[] = {32, 64, 128, 256, 512, 1024, 2048, 4096};

inline Tensor make_row(std::int64_t n, int block_size = 64, bool nested = false,
                       reference::WeightType type = reference::WeightType::fp16,
                       std::uint64_t seed = 1) {
  return make_tensor(
      {.rows = 1, .columns = n, .block_size = block_size, .nested = nested, .output = type}, seed);
}

/// Each of the 16 codes, twice, under scales of every kind: all fp16 and bf16 values, with all
/// exponents of fp32, subnormals, infinities and NaNs, and bit patterns of fp32 all over; or under
/// one scale in `step`, an odd number.
inline Tensor every_code_under_every_scale(reference::WeightType type, unsigned step = 1) {
  Tensor tensor;
  reference::QuantizedTensor& quantized = tensor.quantized;
  for (const auto narrow : {reference::WeightType::fp16, reference::WeightType::bf16}) {
    for (unsigned bits = 0; bits < 65536; bits += step) {
      quantized.absmax.push_back(reference::widen(narrow, static_cast<std::uint16_t>(bits)));
    }
  }
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 65519ull * step) {
    quantized.absmax.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  quantized.name = "every code under every scale";
  quantized.type = type;
  quantized.block_size = 32;
  quantized.n = 32 * std::ssize(quantized.absmax);
  quantized.shape = {1, quantized.n};
  for (std::int64_t byte = 0; byte < quantized.n / 2; ++byte) {
    const auto code = static_cast<unsigned>(2 * byte % 16);
    quantized.codes.push_back(static_cast<std::uint8_t>(code << 4 | (code + 1)));
  }
  tensor.expected = reference::dequantize(quantized);
  return tensor;
}

/// Calls `run(block_size, type, nested)` for every format.
template <class Run>
void for_each_format(Run run) {
  for (const int block_size : block_sizes) {
    for (const auto type : {reference::WeightType::fp16, reference::WeightType::bf16}) {
      for (const bool nested : {false, true}) run(block_size, type, nested);
    }
  }
}

/// Calls `run(tensor, offset)` for arrays that begin at every place of a 16-byte store's eight
/// weights, and of a word's four bytes; lengths from none to several tiles.
template <class Run>
void for_each_offset(Run run) {
  for (const bool nested : {false, true}) {
    for (const std::int64_t n : {1, 7, 8, 9, 23, 24, 47, 48, 49, 127, 1025, 40001}) {
      const Tensor tensor = make_row(n, nested ? 64 : 32, nested, reference::WeightType::bf16);
      for (int offset = 1; offset < 10; ++offset) run(tensor, offset);
    }
  }
}

/// Calls `run(tensor)` for nested scales of tiny, huge and negative offsets.
template <class Run>
void for_each_nested_scale(Run run) {
  for (const float offset : {0.0f, -0.25f, 1e-39f, 3e38f}) {
    for (const float second :
         {0.0f, 1e-40f, 2e-38f, 0.1f, 3e38f, std::numeric_limits<float>::infinity()}) {
      Tensor tensor = make_row(64 * 600 + 5, 64, true);
      auto& nested = *tensor.quantized.nested;
      nested.offset = offset;
      nested.absmax[1] = second;
      reference::dequantize_scales(nested, tensor.quantized.absmax);
      tensor.expected = reference::dequantize(tensor.quantized);
      run(tensor);
    }
  }
}

}  // namespace reprolab::nf4
