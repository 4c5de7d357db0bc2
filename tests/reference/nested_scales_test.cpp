// The golden file shows that the map and the codes are bitsandbytes' own, also for NaNs.
#include "reference/nf4/nested_scales.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "tests/refusal.hpp"

namespace reprolab::reference {
namespace {

TEST(NestedScales, ATieGoesToTheEvenCode) {
  ScaleMap map{};
  for (int i = 0; i < 256; ++i) map[i] = static_cast<float>(i - 128) / 128.0f;
  map[255] = 1.0f;
  const std::vector<float> absmax = {1.0f, 0.5f / 128, 1.5f / 128, 2.5f / 128};
  const NestedScales nested = quantize_scales(absmax, map, 0.0f);
  EXPECT_EQ(nested.codes, (std::vector<std::uint8_t>{255, 128, 130, 130}));
}

TEST(NestedScales, SubnormalsCountAsZero) {
  constexpr float min_normal = std::numeric_limits<float>::min();
  NestedScales nested;
  std::vector<float> absmax(1);
  nested.codes = {0};
  for (const auto& [value, scale] :
       {std::pair(4.0f, min_normal / 2), std::pair(min_normal / 2, 4.0f)}) {
    nested.map[0] = value;
    nested.absmax = {scale};
    dequantize_scales(nested, absmax);
    EXPECT_EQ(absmax[0], 0.0f) << value;
  }
  ScaleMap map{};
  for (int i = 0; i < 256; ++i) map[i] = static_cast<float>(i - 127) * min_normal;
  EXPECT_EQ(quantize_scales(std::vector{0.0f, 1.0f}, map, 0.0f).codes[0], 128)
      << "half of the least normal number is zero, so that there is a tie";
}

TEST(NestedScales, SizesThatDisagreeAreRefused) {
  NestedScales nested;
  nested.codes.resize(257);
  nested.absmax.resize(1);
  std::vector<float> absmax(257);
  expect_refused<std::invalid_argument>([&] { dequantize_scales(nested, absmax); }, "second-level");
}

}  // namespace
}  // namespace reprolab::reference
