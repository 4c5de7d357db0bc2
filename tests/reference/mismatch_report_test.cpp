#include "reference/mismatch_report.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "reference/ulps.hpp"

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

}  // namespace
}  // namespace reprolab::reference
