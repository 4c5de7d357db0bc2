#include "reference/nf4/quantizer_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>

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

TEST_F(QuantizerCheckTest, AWrongCodeOrScaleIsUnexplained) {
  EXPECT_EQ(describe(check_quantizer(tensor_, source_)), "");
  tensor_.codes[100] ^= 0x30;
  tensor_.absmax[63] *= 2;
  const QuantizerCheck check = check_quantizer(tensor_, source_);
  EXPECT_TRUE(check.wrong());
  EXPECT_EQ(describe(check),
            "1 of 4096 codes differ: 0 explained by subnormals, 0 by the approximate reciprocal, "
            "1 unexplained; 1 scales differ");
}

/// With that subnormal as its scale, another quantizer maps a zero to 0, not NaN.
TEST_F(QuantizerCheckTest, ACodeForASubnormalOrAZeroBesideOneIsExplained) {
  source_[7] = 0x0001;
  quantize(source_, tensor_.type, 64, tensor_.codes, tensor_.absmax);
  tensor_.codes[3] = static_cast<std::uint8_t>((tensor_.codes[3] & 0xf0) | 8);
  EXPECT_EQ(check_quantizer(tensor_, source_).from_subnormals, 1);
  std::fill_n(source_.begin(), 64, 0);
  source_[7] = 0x0001;
  quantize(source_, tensor_.type, 64, tensor_.codes, tensor_.absmax);
  tensor_.codes[0] = 0x77;
  const QuantizerCheck check = check_quantizer(tensor_, source_);
  EXPECT_FALSE(check.wrong());
  EXPECT_EQ(check.from_subnormals, 2);
}

/// The reciprocals of zero and infinity are exact.
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

/// The one fp16 weight and scale whose code depends on the last bit of the reciprocal: 1 with the
/// exact one, 2 with the next smaller one. No bf16 weight and scale have such a quotient.
TEST_F(QuantizerCheckTest, ACodeThatDependsOnTheReciprocalIsExplained) {
  tensor_.type = WeightType::fp16;
  std::fill_n(source_.begin(), 64, 0);
  source_[0] = 0x3fb7;
  source_[1] = 0xbcb6;
  quantize(source_, tensor_.type, 64, tensor_.codes, tensor_.absmax);
  EXPECT_EQ(tensor_.codes[0], 0xf1);
  tensor_.codes[0] = 0xf2;
  EXPECT_EQ(check_quantizer(tensor_, source_).from_reciprocal, 1);
  tensor_.codes[0] = 0xf3;
  EXPECT_EQ(check_quantizer(tensor_, source_).unexplained, 1);
}

}  // namespace
}  // namespace reprolab::reference
