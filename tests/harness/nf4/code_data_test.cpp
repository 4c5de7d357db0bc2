#include "harness/nf4/code_data.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "harness/nf4/tensor.hpp"

namespace reprolab::nf4 {
namespace {

constexpr std::array all = {CodeData::normal, CodeData::sorted, CodeData::uniform, CodeData::equal};

std::vector<int> codes_of(const reference::QuantizedTensor& tensor) {
  std::vector<int> codes;
  for (std::int64_t i = 0; i < tensor.n; ++i) codes.push_back(reference::code_at(tensor.codes, i));
  return codes;
}

Tensor tensor_with(CodeData data, std::int64_t rows = 512, std::int64_t columns = 512) {
  return make_tensor({.rows = rows, .columns = columns, .data = data}, 1);
}

TEST(CodeData, HasANameForEachKind) {
  for (const CodeData data : all) EXPECT_EQ(code_data_named(name(data)), data);
  EXPECT_EQ(name(CodeData::sorted), "sorted");
  EXPECT_THROW(code_data_named("Normal"), std::invalid_argument);
}

TEST(CodeData, SortedAreTheNormalOnesInAscendingOrder) {
  // Lengths at which codes begin in either half of a byte, and few enough that some do not occur.
  for (const std::int64_t n : {1, 2, 3, 15, 16, 17, 64, 1000, 1001, 4099, 262144}) {
    auto expected = codes_of(tensor_with(CodeData::normal, 1, n).quantized);
    std::ranges::sort(expected);
    EXPECT_EQ(codes_of(tensor_with(CodeData::sorted, 1, n).quantized), expected) << n;
  }
}

/// Of 262144 codes 16384 are each, give or take 124 (one standard deviation).
TEST(CodeData, UniformOnesOccurEquallyOftenInNoOrder) {
  const auto codes = codes_of(tensor_with(CodeData::uniform).quantized);
  for (int code = 0; code < 16; ++code) {
    EXPECT_NEAR(std::ranges::count(codes, code), 16384, 6 * 124);
  }
  std::int64_t like_the_one_before = 0;
  for (std::size_t i = 1; i < codes.size(); ++i) like_the_one_before += codes[i] == codes[i - 1];
  EXPECT_NEAR(like_the_one_before, 16384, 6 * 124);
}

TEST(CodeData, EqualOnesAreOneCodeWhoseWeightsDifferByTheirScale) {
  const Tensor tensor = tensor_with(CodeData::equal);
  EXPECT_EQ(std::ranges::count(codes_of(tensor.quantized), equal_code), tensor.quantized.n);
  EXPECT_NE(tensor.expected.front(), 0);
  EXPECT_NE(std::ranges::count(tensor.expected, tensor.expected.front()), tensor.quantized.n);
}

TEST(CodeData, LeavesTheScalesAndDependsOnTheSeedInItsOutput) {
  for (const bool nested : {false, true}) {
    const TensorSpec normal{.rows = 3, .columns = 12345, .nested = nested};
    const auto scales = make_tensor(normal, 1).quantized.absmax;
    for (const CodeData data : all) {
      TensorSpec spec = normal;
      spec.data = data;
      const Tensor tensor = make_tensor(spec, 1);
      EXPECT_EQ(tensor.quantized.absmax, scales) << name(data);
      EXPECT_EQ(tensor.expected, reference::dequantize(tensor.quantized)) << name(data);
      EXPECT_EQ(tensor.quantized.codes.back() & 15, 7) << name(data) << ": past an odd end";
      EXPECT_EQ(make_tensor(spec, 1).expected, tensor.expected) << name(data);
      EXPECT_NE(make_tensor(spec, 2).expected, tensor.expected) << name(data);
    }
  }
}

}  // namespace
}  // namespace reprolab::nf4
