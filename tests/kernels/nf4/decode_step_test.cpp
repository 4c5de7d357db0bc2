// The decode step on the host, for every input that 16 bits of scale and 4 of code can make,
// compared with the reference, which shares no code with it.
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/nf4/format.hpp"
#include "kernels/nf4/support.hpp"
#include "reference/nf4/nested_scales.hpp"
#include "tests/kernels/nf4/testing.hpp"

namespace reprolab::nf4 {
namespace {

using reference::WeightType;

template <class Out>
std::uint16_t bits_of(Out value) {
  static_assert(sizeof(Out) == sizeof(std::uint16_t));
  std::uint16_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// The kernels' decode step.
std::uint16_t decoded(WeightType type, int code, float scale) {
  const float product = scaled(table_entry(code), scale);
  return type == WeightType::fp16 ? bits_of(round_to<__half>(product))
                                  : bits_of(round_to<__nv_bfloat16>(product));
}

/// All 16 codes with each scale, by the reference.
std::vector<std::uint16_t> by_reference(const std::vector<float>& scales, WeightType type) {
  std::vector<std::uint8_t> codes(scales.size() * 16);
  for (std::size_t byte = 0; byte < codes.size(); ++byte) {
    const auto code = static_cast<unsigned>(2 * byte % 16);
    codes[byte] = static_cast<std::uint8_t>(code << 4 | (code + 1));
  }
  std::vector<std::uint16_t> output(scales.size() * 32);
  reference::dequantize(codes, scales, reference::standard_table, 32, type, output);
  return output;
}

/// Every fp16 and bf16 value, with all exponents of fp32, subnormals, infinities and NaNs; and bit
/// patterns of fp32 all over.
TEST(DecodeStep, EveryCodeTimesEveryScaleIsTheReferences) {
  std::vector<float> scales;
  for (const auto type : {WeightType::fp16, WeightType::bf16}) {
    for (unsigned bits = 0; bits < 65536; ++bits) {
      scales.push_back(reference::widen(type, static_cast<std::uint16_t>(bits)));
    }
  }
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 65519) {
    scales.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  for (const auto type : {WeightType::fp16, WeightType::bf16}) {
    const auto expected = by_reference(scales, type);
    for (std::size_t block = 0; block < scales.size(); ++block) {
      for (int code = 0; code < 16; ++code) {
        ASSERT_EQ(decoded(type, code, scales[block]), expected[32 * block + code])
            << name(type) << ", code " << code << ", scale " << scales[block];
      }
    }
  }
}

TEST(NestedScale, EveryMapEntryIsTheReferencesToTheBit) {
  reference::NestedScales nested;
  nested.map = reference::dynamic_map();
  for (int code = 0; code < 256; ++code) nested.codes.push_back(static_cast<std::uint8_t>(code));
  std::vector<float> expected(256);
  int fused = 0;
  for (const float second : {0.0f, 1e-45f, 1e-39f, 3e-38f, 0.0123f, 0.77f, 1.5f, 3e4f, 3e38f,
                             std::numeric_limits<float>::infinity()}) {
    for (const float offset : {0.0f, -0.0f, 0.0678901f, -0.3f, 1e-40f, 1e38f}) {
      nested.absmax = {second};
      nested.offset = offset;
      reference::dequantize_scales(nested, expected);
      for (std::size_t code = 0; code < 256; ++code) {
        const float ours = nested_scale(nested.map[code], second, offset);
        ASSERT_EQ(std::bit_cast<std::uint32_t>(ours), std::bit_cast<std::uint32_t>(expected[code]))
            << "code " << code << ", absmax " << second << ", offset " << offset;
        const float once = fused_nested_scale(nested.map[code], second, offset);
        const float fma = std::fma(nested.map[code], second, offset);
        ASSERT_EQ(std::bit_cast<std::uint32_t>(once), std::bit_cast<std::uint32_t>(fma));
        fused += once != ours;
      }
    }
  }
  EXPECT_GT(fused, 0) << "these inputs do not tell a fused multiply-add apart";
}

}  // namespace
}  // namespace reprolab::nf4
