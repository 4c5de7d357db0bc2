#include "reference/nf4/quantizer_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reference/nf4/normal_weights.hpp"

namespace reprolab::reference {
namespace {

class QuantizerCheckTest : public testing::Test {
 protected:
  QuantizerCheckTest() : source_(4096) {
    normal_weights(1, 0, WeightType::bf16, 0.02f, source_);
    tensor_.n = 4096;
    tensor_.type = WeightType::bf16;
    tensor_.codes.resize(2048);
    tensor_.absmax.resize(64);
    quantize(source_, tensor_.type, 64, tensor_.codes, tensor_.absmax);
  }

  std::vector<std::uint16_t> source_;
  QuantizedTensor tensor_;
};

TEST_F(QuantizerCheckTest, OwnCodesAreEqual) {
  const QuantizerCheck check = check_quantizer(tensor_, source_);
  EXPECT_TRUE(check.equal());
  EXPECT_EQ(describe(check), "");
}

TEST_F(QuantizerCheckTest, AWrongCodeIsUnexplained) {
  tensor_.codes[100] ^= 0x30;
  const QuantizerCheck check = check_quantizer(tensor_, source_);
  EXPECT_TRUE(check.wrong());
  EXPECT_EQ(describe(check),
            "1 of 4096 codes differ: 0 explained by subnormals, 0 by the approximate reciprocal, "
            "1 unexplained; 0 scales differ");
}

TEST_F(QuantizerCheckTest, AWrongScaleIsNeverExplained) {
  tensor_.absmax[63] *= 2;
  EXPECT_EQ(describe(check_quantizer(tensor_, source_)),
            "0 of 4096 codes differ: 0 explained by subnormals, 0 by the approximate reciprocal, "
            "0 unexplained; 1 scales differ");
}

TEST_F(QuantizerCheckTest, ACodeForASubnormalIsExplained) {
  source_[7] = 0x0001;
  quantize(source_, tensor_.type, 64, tensor_.codes, tensor_.absmax);
  tensor_.codes[3] = static_cast<std::uint8_t>((tensor_.codes[3] & 0xf0) | 8);
  const QuantizerCheck check = check_quantizer(tensor_, source_);
  EXPECT_FALSE(check.wrong());
  EXPECT_EQ(check.from_subnormals, 1);
}

/// With that subnormal as its scale, another quantizer makes 0 of a zero, and not NaN.
TEST_F(QuantizerCheckTest, ACodeForAZeroBesideASubnormalIsExplained) {
  std::fill_n(source_.begin(), 64, 0);
  source_[7] = 0x0001;
  quantize(source_, tensor_.type, 64, tensor_.codes, tensor_.absmax);
  tensor_.codes[0] = 0x77;
  const QuantizerCheck check = check_quantizer(tensor_, source_);
  EXPECT_FALSE(check.wrong());
  EXPECT_EQ(check.from_subnormals, 2);
}

/// Of zero and infinity, every reciprocal is exact.
TEST_F(QuantizerCheckTest, ACodeInABlockOfZerosOrInfinitiesIsUnexplained) {
  for (const auto& [weight, codes] : {std::pair(0x0000, 0x77), std::pair(0x7f80, 0xff)}) {
    std::fill_n(source_.begin(), 64, static_cast<std::uint16_t>(weight));
    quantize(source_, tensor_.type, 64, tensor_.codes, tensor_.absmax);
    tensor_.codes[0] = static_cast<std::uint8_t>(codes);
    EXPECT_EQ(check_quantizer(tensor_, source_).unexplained, 2) << weight;
  }
}

TEST_F(QuantizerCheckTest, WrongNestedScalesAreCounted) {
  NestedScales& nested = tensor_.nested.emplace(quantize_scales(tensor_.absmax));
  EXPECT_TRUE(check_quantizer(tensor_, source_).equal());
  nested.codes[5] ^= 1;
  nested.absmax[0] *= 2;
  EXPECT_EQ(check_quantizer(tensor_, source_).scales, 2);
  nested = quantize_scales(tensor_.absmax);
  nested.block_size = 128;
  EXPECT_EQ(check_quantizer(tensor_, source_).scales, 64) << "bitsandbytes has groups of 256";
}

int code_of(float scaled) {
  int code = 0;
  for (const float midpoint : standard_midpoints) code += scaled > midpoint;
  return code;
}

/// Finds the one fp16 weight and scale whose code depends on the last bit of the reciprocal, and
/// stores the other code. There is no such bf16 weight and scale.
TEST_F(QuantizerCheckTest, ACodeThatTurnsOnTheReciprocalIsExplained) {
  tensor_.type = WeightType::fp16;
  for (std::uint16_t scale = 0x3c00; scale < 0x4000; ++scale) {
    const float exact = 1.0f / widen_fp16(scale);
    const float less = std::nextafter(exact, 0.0f);
    for (std::uint32_t candidate = 0; candidate < 0x10000; ++candidate) {
      const auto bits = static_cast<std::uint16_t>(candidate);
      const float weight = widen_fp16(bits);
      if (!(std::abs(weight) > 0.02f) || std::abs(weight) > widen_fp16(scale)) continue;
      if (code_of(weight * exact) == code_of(weight * less)) continue;
      source_[0] = scale;
      source_[1] = bits;
      quantize(source_, tensor_.type, 64, tensor_.codes, tensor_.absmax);
      tensor_.codes[0] = static_cast<std::uint8_t>(0xf0 | code_of(weight * less));
      const QuantizerCheck check = check_quantizer(tensor_, source_);
      EXPECT_EQ(check.from_reciprocal, 1);
      EXPECT_FALSE(check.wrong());
      return;
    }
  }
  FAIL() << "no fp16 weight lies so close to a midpoint";
}

}  // namespace
}  // namespace reprolab::reference
