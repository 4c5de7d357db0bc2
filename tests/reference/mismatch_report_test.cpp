#include "reference/mismatch_report.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "reference/ulps.hpp"

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
  EXPECT_EQ(
      report(130, 0x1d27),
      "1 of 192 weights differ, by at most 1 ULP; first at index 130 (row 2, column 2): block "
      "2, code 9 (0.160930201), scale 0.03125, expected 0x1d26 (0.00502777), actual 0x1d27 "
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
            "1 of 192 weights differ, in the sign of zeros alone; first at index 64: block 1, code "
            "7 (0), scale 0.25, expected 0x0000 (0), actual 0x8000 (-0), 0 ULPs apart (zeros of "
            "different sign)");
}

TEST(DescribeExtent, TellsTheLargestDistanceWhereItMeansSomething) {
  const auto extent = [](std::uint32_t max_ulps, WeightType type) {
    return describe_extent({.mismatches = 2, .first_mismatch = 0, .max_ulps = max_ulps}, 4096,
                           type);
  };
  EXPECT_EQ(extent(1, WeightType::fp16), "2 of 4096 weights differ, by at most 1 ULP");
  EXPECT_EQ(extent(0, WeightType::fp16), "2 of 4096 weights differ, in the sign of zeros alone");
  EXPECT_EQ(extent(1023, WeightType::fp16), "2 of 4096 weights differ, by at most 1023 ULPs");
  EXPECT_EQ(extent(127, WeightType::bf16), "2 of 4096 weights differ, by at most 127 ULPs");
  for (const auto type : {WeightType::fp16, WeightType::bf16}) {
    const std::uint32_t factor_of_two = type == WeightType::fp16 ? 1024 : 128;
    EXPECT_EQ(extent(factor_of_two, type), "2 of 4096 weights differ");
    EXPECT_EQ(extent(no_distance, type), "2 of 4096 weights differ");
  }
  EXPECT_EQ(describe_extent({}, 4096, WeightType::bf16), "0 of 4096 weights differ");
}

}  // namespace
}  // namespace reprolab::reference
