// Every case made by the real bitsandbytes: its outputs, its codes, its scales.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "reference/checkpoint/bnb_checkpoint.hpp"
#include "reference/compare.hpp"
#include "reference/nf4/quantizer_check.hpp"

namespace reprolab::reference {
namespace {

const BnbCheckpoint& golden() {
  static const BnbCheckpoint checkpoint({GOLDEN_FILE});
  return checkpoint;
}

class Golden : public testing::TestWithParam<int> {
 protected:
  const QuantizedTensorInfo& info() const { return golden().tensors()[GetParam()]; }
  std::vector<std::uint16_t> source() const { return golden().load_bits(*info().source); }
};

TEST_P(Golden, DequantizesToTheStoredBits) {
  const QuantizedTensor tensor = golden().load(info());
  const auto expected = golden().load_bits(*info().dequantized);
  for (const int threads : {1, 4}) {
    const Comparison found = compare_bits(expected, dequantize(tensor, threads), threads);
    EXPECT_EQ(found.mismatches, 0) << info().name << " first at " << found.first_mismatch;
  }
}

TEST_P(Golden, QuantizesToTheStoredCodesAndScales) {
  const QuantizerCheck check = check_quantizer(golden().load(info()), source());
  EXPECT_TRUE(check.equal()) << info().name << ": " << describe(check);
}

class GoldenNested : public Golden {};

TEST_P(GoldenNested, DecodesNestedScalesToTheStoredBits) {
  const QuantizedTensor tensor = golden().load(info());
  const std::string stem = info().name.substr(0, info().name.find('.'));
  const auto stored = golden().shards().read<float>(*golden().shards().find(stem + ".absmax_fp32"));
  EXPECT_TRUE(compare_bits(std::span<const float>(stored), tensor.absmax).equal());
  EXPECT_EQ(tensor.nested->map, dynamic_map());
}

/// Our own offset (the mean, summed in double) may differ from the stored one, which a GPU summed
/// in fp32 in its own order, but not by more than that explains.
TEST_P(GoldenNested, OffsetIsTheMeanUpToTheOrderOfTheSum) {
  const QuantizedTensor tensor = golden().load(info());
  if (std::isinf(tensor.nested->offset)) return;  // the kind "huge": the mean of infinities
  std::vector<std::uint8_t> codes(tensor.codes.size());
  std::vector<float> absmax(tensor.absmax.size());
  quantize(source(), tensor.type, tensor.block_size, codes, absmax);
  const float ours = quantize_scales(absmax).offset;
  EXPECT_NEAR(ours, tensor.nested->offset, 2e-7 * std::abs(ours));
}

std::vector<int> nested_cases() {
  std::vector<int> cases;
  for (int i = 0; i < static_cast<int>(golden().tensors().size()); ++i) {
    if (golden().tensors()[i].state.nested) cases.push_back(i);
  }
  return cases;
}

std::string case_name(const testing::TestParamInfo<int>& info) {
  return fmt::format("case{:03}", info.param);
}

INSTANTIATE_TEST_SUITE_P(Seed1, Golden, testing::Range(0, 86), case_name);
INSTANTIATE_TEST_SUITE_P(Seed1, GoldenNested, testing::ValuesIn(nested_cases()), case_name);

TEST(GoldenFile, HoldsEveryCaseThatIsTested) {
  EXPECT_EQ(golden().tensors().size(), 86u);
  EXPECT_EQ(nested_cases().size(), 30u);
  for (const auto& info : golden().tensors()) {
    EXPECT_TRUE(info.dequantized && info.source) << info.name;
    const QuantizedTensor tensor = golden().load(info);
    EXPECT_EQ(tensor.table, standard_table) << info.name;
  }
}

}  // namespace
}  // namespace reprolab::reference
