// Values that ordinary weights never reach: infinities, NaN, zeros of both signs, subnormals.
#include <cmath>
#include <limits>

#include "tests/kernels/nf4/on_gpu.hpp"

namespace reprolab::nf4 {
namespace {

using reference::WeightType;

/// A tensor that the reference quantizes and dequantizes from bits of `type`.
Tensor from_source(const std::string& name, const std::vector<std::uint16_t>& source,
                   WeightType type, int block_size) {
  const auto n = static_cast<std::int64_t>(source.size());
  reference::QuantizedTensor quantized{.name = name,
                                       .shape = {1, n},
                                       .n = n,
                                       .block_size = block_size,
                                       .type = type,
                                       .table = reference::standard_table};
  quantized.codes.resize(static_cast<std::size_t>(reference::code_bytes(n)));
  quantized.absmax.resize(static_cast<std::size_t>(reference::block_count(n, block_size)));
  reference::quantize(source, type, block_size, quantized.codes, quantized.absmax);
  auto expected = reference::dequantize(quantized);
  return {std::move(quantized), std::move(expected)};
}

/// A tensor with every code under each of `scales`, block by block.
Tensor from_scales(const std::string& name, const std::vector<float>& scales, WeightType type) {
  const auto n = static_cast<std::int64_t>(scales.size()) * 32;
  reference::QuantizedTensor quantized{.name = name,
                                       .shape = {1, n},
                                       .n = n,
                                       .block_size = 32,
                                       .type = type,
                                       .table = reference::standard_table};
  quantized.absmax = scales;
  for (std::int64_t byte = 0; byte < n / 2; ++byte) {
    const auto code = static_cast<unsigned>(2 * byte % 16);
    quantized.codes.push_back(static_cast<std::uint8_t>(code << 4 | (code + 1)));
  }
  auto expected = reference::dequantize(quantized);
  return {std::move(quantized), std::move(expected)};
}

/// Ordinary weights, but with `bits` in the second block (all of it, or its first weight).
Tensor with_block(const std::string& name, std::uint16_t bits, bool whole_block, WeightType type,
                  int block_size) {
  const Tensor ordinary = make_row(3 * 4096 + 17, block_size, false, type);
  auto source = ordinary.expected;
  for (int i = 0; i < (whole_block ? block_size : 1); ++i) {
    source[static_cast<std::size_t>(block_size + i)] = bits;
  }
  return from_source(name, source, type, block_size);
}

std::int64_t count(const Tensor& tensor, std::uint16_t bits) {
  return std::ranges::count(tensor.expected, bits);
}

/// The crafted tensors hold the outputs that the tests below need; no device needed.
TEST(SpecialValues, TheCraftedTensorsHoldThem) {
  EXPECT_EQ(count(with_block("infinite", 0x7c00, false, WeightType::fp16, 64), 0x7fff), 63);
  EXPECT_EQ(count(with_block("zero", 0, true, WeightType::fp16, 64), 0x8000), 64);
  EXPECT_EQ(count(with_block("zero", 0, true, WeightType::bf16, 4096), 0x8000), 4096);
  // 1.2e-38 is normal, and its product with every entry but 1 and -1 is not.
  const auto tiny = from_scales("tiny", {1.2e-38f}, WeightType::bf16);
  EXPECT_EQ(count(tiny, 0), 2 * 8);
  EXPECT_EQ(count(tiny, 0x8000), 2 * 6);
}

class OnGpuSpecialValues : public OnGpuEachKernel {};

TEST_P(OnGpuSpecialValues, InfiniteAndZeroBlocksAreAsPromised) {
  const Proof proof;
  for (const auto type : {WeightType::fp16, WeightType::bf16}) {
    const std::uint16_t infinity = type == WeightType::fp16 ? 0x7c00 : 0x7f80;
    for (const int block_size : {32, 64, 4096}) {
      for (const bool whole : {false, true}) {
        for (const std::uint16_t bits : {infinity, std::uint16_t{0}, std::uint16_t{0x8000},
                                         std::uint16_t{0x0001}, std::uint16_t{0x7fff}}) {
          const Tensor tensor = with_block("crafted", bits, whole, type, block_size);
          proof.expect_promised(
              GetParam(), tensor,
              "bits " + std::to_string(bits) + ", block size " + std::to_string(block_size));
        }
      }
    }
  }
}

TEST_P(OnGpuSpecialValues, EveryCodeUnderEveryFp16AndBf16ScaleIsAsPromised) {
  const Proof proof;
  for (const auto scale_type : {WeightType::fp16, WeightType::bf16}) {
    std::vector<float> scales;
    for (unsigned bits = 0; bits < 65536; ++bits) {
      scales.push_back(reference::widen(scale_type, static_cast<std::uint16_t>(bits)));
    }
    for (const auto type : {WeightType::fp16, WeightType::bf16}) {
      proof.expect_promised(
          GetParam(), from_scales("every scale", scales, type),
          std::string(name(scale_type)) + " scales to " + std::string(name(type)));
    }
  }
}

TEST_P(OnGpuSpecialValues, ScalesOfAllBitPatternsAreAsPromised) {
  const Proof proof;
  std::vector<float> scales;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 65519) {
    scales.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  for (const auto type : {WeightType::fp16, WeightType::bf16}) {
    proof.expect_promised(GetParam(), from_scales("all bit patterns", scales, type),
                          std::string(name(type)));
  }
}

TEST_P(OnGpuSpecialValues, NestedScalesOfTinyHugeAndNegativeOffsetsAreAsPromised) {
  const Proof proof;
  for (const float offset : {0.0f, -0.25f, 1e-39f, 3e38f}) {
    for (const float second :
         {0.0f, 1e-40f, 2e-38f, 0.1f, 3e38f, std::numeric_limits<float>::infinity()}) {
      Tensor tensor = make_row(64 * 600 + 5, 64, true);
      auto& nested = *tensor.quantized.nested;
      nested.offset = offset;
      nested.absmax[1] = second;
      reference::dequantize_scales(nested, tensor.quantized.absmax);
      tensor.expected = reference::dequantize(tensor.quantized);
      proof.expect_promised(
          GetParam(), tensor,
          "absmax2 " + std::to_string(second) + ", offset " + std::to_string(offset));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, OnGpuSpecialValues, testing::ValuesIn(registered_kernels()),
                         name_of);

}  // namespace
}  // namespace reprolab::nf4
