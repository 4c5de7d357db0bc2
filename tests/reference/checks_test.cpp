#include "reference/nf4/checks.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace reprolab::reference {
namespace {

TEST(MismatchReport, TellsEverythingOfTheFirst) {
  QuantizedTensor tensor{.shape = {3, 64},
                         .n = 192,
                         .codes = std::vector<std::uint8_t>(96, 0x9f),
                         .absmax = {0.5f, 0.25f, 0.03125f}};
  tensor.codes[32] = 0x77;
  const auto expected = dequantize(tensor);
  const auto report = [&](std::int64_t index, std::uint16_t planted) {
    auto actual = expected;
    actual[index] = planted;
    return describe_mismatch(compare_bits(expected, actual), tensor, expected[index], planted);
  };
  EXPECT_EQ(
      report(130, 0x1d27),
      "1 of 192 weights differ, by at most 1 ULP; first at index 130 (row 2, column 2): block "
      "2, code 9 (0.160930201), scale 0.03125, expected 0x1d26 (0.00502777), actual 0x1d27 "
      "(0.00503159), 1 ULP apart");
  EXPECT_EQ(report(1, 0x7fff),
            "1 of 192 weights differ; first at index 1 (row 0, column 1): block 0, code 15 (1), "
            "scale 0.5, expected 0x3800 (0.5), actual 0x7fff (nan), not comparable in ULPs (NaN)");
  tensor.shape = {};
  EXPECT_EQ(report(64, 0x8000),
            "1 of 192 weights differ, in the sign of zeros alone; first at index 64: block 1, code "
            "7 (0), scale 0.25, expected 0x0000 (0), actual 0x8000 (-0), 0 ULPs apart (zeros of "
            "different sign)");
}

TEST(QuantizerCheck, CountsWrongCodesAndScalesOfBothLevels) {
  std::vector<std::uint16_t> source(4096);
  normal_weights(1, 0, WeightType::bf16, 0.02f, source);
  QuantizedTensor tensor{.n = 4096,
                         .type = WeightType::bf16,
                         .codes = std::vector<std::uint8_t>(2048),
                         .absmax = std::vector<float>(64)};
  quantize(source, tensor.type, 64, tensor.codes, tensor.absmax);
  EXPECT_EQ(describe_quantizer(tensor, source), "");
  NestedScales& nested = tensor.nested.emplace(quantize_scales(tensor.absmax));
  EXPECT_EQ(describe_quantizer(tensor, source), "");
  tensor.codes[100] ^= 0x30;
  nested.codes[5] ^= 1;
  nested.absmax[0] *= 2;
  EXPECT_EQ(describe_quantizer(tensor, source), "1 of 4096 codes and 2 scales differ");
  nested.block_size = 128;
  EXPECT_EQ(describe_quantizer(tensor, source), "1 of 4096 codes and 64 scales differ")
      << "bitsandbytes has groups of 256";
  tensor.nested.reset();
  tensor.absmax[63] *= 2;
  EXPECT_EQ(describe_quantizer(tensor, source), "1 of 4096 codes and 1 scales differ");
}

}  // namespace
}  // namespace reprolab::reference
