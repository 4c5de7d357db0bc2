#include "reference/mismatch_report.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace reprolab::reference {
namespace {

class MismatchReport : public testing::Test {
 protected:
  std::string report(std::int64_t index, std::uint16_t planted) {
    std::vector<std::uint16_t> expected(192);
    dequantize(codes_, absmax_, standard_table, 64, WeightType::fp16, expected);
    auto actual = expected;
    actual[index] = planted;
    return describe_mismatch(compare_bits(expected, actual), 192, view_, expected[index], planted);
  }

  std::vector<std::uint8_t> codes_ = std::vector<std::uint8_t>(96, 0x9f);
  std::vector<float> absmax_ = {0.5f, 0.25f, 0.03125f};
  Nf4View view_{.codes = codes_, .absmax = absmax_, .shape = {3, 64}};
};

TEST_F(MismatchReport, TellsEverythingOfTheFirst) {
  EXPECT_EQ(report(130, 0x1d27),
            "1 of 192 weights differ; first at index 130 (row 2, column 2): block 2, code 9 "
            "(0.160930201), scale 0.03125, expected 0x1d26 (0.00502777), actual 0x1d27 "
            "(0.00503159), 1 ULP apart");
}

TEST_F(MismatchReport, SaysWhenThereIsNoDistance) {
  EXPECT_EQ(report(1, 0x7fff),
            "1 of 192 weights differ; first at index 1 (row 0, column 1): block 0, code 15 (1), "
            "scale 0.5, expected 0x3800 (0.5), actual 0x7fff (nan), not comparable in ULPs (NaN)");
}

TEST_F(MismatchReport, TellsZerosApartAndDoesWithoutAShape) {
  view_.shape = {};
  codes_[32] = 0x77;
  EXPECT_EQ(report(64, 0x8000),
            "1 of 192 weights differ; first at index 64: block 1, code 7 (0), scale 0.25, "
            "expected 0x0000 (0), actual 0x8000 (-0), 0 ULPs apart (zeros of different sign)");
}

TEST(DistanceInUlps, CountsStepsAcrossZero) {
  EXPECT_EQ(distance_in_ulps(WeightType::fp16, 0x0001, 0x8001), 2);
  EXPECT_EQ(distance_in_ulps(WeightType::bf16, 0x7f80, 0x7f7f), 1);
  EXPECT_EQ(distance_in_ulps(WeightType::bf16, 0x3f80, 0x7f81), -1);
  EXPECT_EQ(distance_in_ulps(WeightType::fp16, 0x3c00, 0xbc00), 2 * 0x3c00);
}

}  // namespace
}  // namespace reprolab::reference
