// The decode step on the host, for every combination of 16 bits of scale and 4 of code, compared
// with the reference, which shares no code with it.
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/nf4/format.hpp"
#include "kernels/nf4/support.hpp"
#include "reference/nf4/nf4.hpp"
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

TEST(DecodeStep, EveryCodeTimesEveryScaleIsTheReferences) {
  for (const auto type : {WeightType::fp16, WeightType::bf16}) {
    const Tensor tensor = every_code_under_every_scale(type);
    for (std::int64_t i = 0; i < tensor.quantized.n; ++i) {
      const int code = reference::code_at(tensor.quantized.codes, i);
      const float scale = tensor.quantized.absmax[static_cast<std::size_t>(i / 32)];
      ASSERT_EQ(decoded(type, code, scale), tensor.expected[static_cast<std::size_t>(i)])
          << name(type) << ", code " << code << ", scale " << scale;
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
  EXPECT_GT(fused, 0) << "these inputs do not distinguish a fused multiply-add";
}

}  // namespace
}  // namespace reprolab::nf4
