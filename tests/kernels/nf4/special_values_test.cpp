// Values that ordinary weights never reach: infinities, NaN, zeros of both signs, subnormals.
#include <cmath>
#include <limits>
#include <map>

#include "tests/kernels/nf4/on_gpu.hpp"

namespace reprolab::nf4 {
namespace {

using reference::WeightType;

reference::QuantizedTensor empty_tensor(std::int64_t n, WeightType type, int block_size) {
  return {.name = "crafted",
          .shape = {1, n},
          .n = n,
          .block_size = block_size,
          .type = type,
          .table = reference::standard_table};
}

Tensor dequantized(reference::QuantizedTensor quantized) {
  auto expected = reference::dequantize(quantized);
  return {std::move(quantized), std::move(expected)};
}

/// A tensor with every code under each of `scales`, block by block.
Tensor from_scales(const std::vector<float>& scales, WeightType type) {
  auto quantized = empty_tensor(static_cast<std::int64_t>(scales.size()) * 32, type, 32);
  quantized.absmax = scales;
  for (std::int64_t byte = 0; byte < quantized.n / 2; ++byte) {
    const auto code = static_cast<unsigned>(2 * byte % 16);
    quantized.codes.push_back(static_cast<std::uint8_t>(code << 4 | (code + 1)));
  }
  return dequantized(std::move(quantized));
}

/// Ordinary weights, but with `bits` in the second block (all of it, or its first weight).
Tensor with_block(std::uint16_t bits, bool whole_block, WeightType type, int block_size) {
  const Tensor ordinary = make_row(3 * 4096 + 17, block_size, false, type);
  auto source = ordinary.expected;
  for (int i = 0; i < (whole_block ? block_size : 1); ++i) {
    source[static_cast<std::size_t>(block_size + i)] = bits;
  }
  auto quantized = empty_tensor(std::ssize(source), type, block_size);
  quantized.codes.resize(static_cast<std::size_t>(reference::code_bytes(quantized.n)));
  quantized.absmax.resize(
      static_cast<std::size_t>(reference::block_count(quantized.n, block_size)));
  reference::quantize(source, type, block_size, quantized.codes, quantized.absmax);
  return dequantized(std::move(quantized));
}

std::int64_t count(const Tensor& tensor, std::uint16_t bits) {
  return std::ranges::count(tensor.expected, bits);
}

/// The crafted tensors hold the outputs that the tests below need; no device needed.
TEST(SpecialValues, TheCraftedTensorsHoldThem) {
  EXPECT_EQ(count(with_block(0x7c00, false, WeightType::fp16, 64), 0x7fff), 63);
  EXPECT_EQ(count(with_block(0, true, WeightType::fp16, 64), 0x8000), 64);
  EXPECT_EQ(count(with_block(0, true, WeightType::bf16, 4096), 0x8000), 4096);
  // 1.2e-38 is normal, and its product with every entry but 1 and -1 is not.
  const auto tiny = from_scales({1.2e-38f}, WeightType::bf16);
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
          const Tensor tensor = with_block(bits, whole, type, block_size);
          proof.expect_promised(
              GetParam(), tensor,
              "bits " + std::to_string(bits) + ", block size " + std::to_string(block_size));
        }
      }
    }
  }
}

TEST_P(OnGpuSpecialValues, EveryCodeUnderScalesOfEveryKindIsAsPromised) {
  const Proof proof;
  std::vector<float> every_fp16, every_bf16, all_over;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 65519) {
    const auto narrow = static_cast<std::uint16_t>(every_fp16.size());
    every_fp16.push_back(reference::widen_fp16(narrow));
    every_bf16.push_back(reference::widen_bf16(narrow));
    all_over.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  for (const auto& [what, scales] : std::map<std::string, std::vector<float>>{
           {"fp16 scales", every_fp16}, {"bf16 scales", every_bf16}, {"all bits", all_over}}) {
    for (const auto type : {WeightType::fp16, WeightType::bf16}) {
      proof.expect_promised(GetParam(), from_scales(scales, type),
                            what + " to " + std::string(name(type)));
    }
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
