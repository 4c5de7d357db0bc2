#include "harness/nf4/tensor.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "reference/nf4/normal_weights.hpp"

namespace reprolab::nf4 {
namespace {

using reference::WeightType;

double bytes_a_weight(const TensorSpec& spec) {
  return static_cast<double>(spec.bytes_read() + spec.bytes_written()) /
         static_cast<double>(spec.weights());
}

TEST(Tensor, DependsOnItsSpecAndSeedAlone) {
  const TensorSpec spec{.rows = 33, .columns = 129, .nested = true};
  const Tensor first = make_tensor(spec, 7), second = make_tensor(spec, 7);
  EXPECT_EQ(first.quantized.codes, second.quantized.codes);
  EXPECT_EQ(first.quantized.nested->codes, second.quantized.nested->codes);
  EXPECT_EQ(first.expected, second.expected);
  EXPECT_NE(first.expected, make_tensor(spec, 8).expected);
}

TEST(Tensor, BytesAreThoseOfTheFormat) {
  TensorSpec spec{.rows = 4096, .columns = 4096};
  EXPECT_DOUBLE_EQ(bytes_a_weight(spec), 0.5 + 4.0 / 64 + 2);
  spec.nested = true;
  EXPECT_NEAR(bytes_a_weight(spec), 2.515869, 1e-6);
  EXPECT_DOUBLE_EQ(bytes_a_weight(spec), 0.5 + 1.0 / 64 + 4.0 / 16384 + 2);
  spec.block_size = 4096;
  EXPECT_DOUBLE_EQ(bytes_a_weight(spec), 0.5 + 1.0 / 4096 + 4.0 / (4096 * 256) + 2);
}

TEST(Tensor, BytesOfOddLengthsCountWhatIsThere) {
  const TensorSpec plain{.rows = 1, .columns = 65};
  EXPECT_EQ(plain.bytes_read(), 33u + 2 * 4);
  EXPECT_EQ(plain.bytes_written(), 130u);
  const TensorSpec nested{.rows = 1, .columns = 64 * 257 + 1, .nested = true};
  EXPECT_EQ(nested.bytes_read(), 8225u + 258 + 2 * 4);
}

TEST(Tensor, BytesAreThoseOfTheArrays) {
  for (const bool nested : {false, true}) {
    for (const std::int64_t n : {1, 2, 63, 64, 65, 16384, 16385, 100003}) {
      const TensorSpec spec{.rows = 1, .columns = n, .nested = nested};
      const auto tensor = make_tensor(spec, 1);
      const auto& quantized = tensor.quantized;
      const std::size_t scales =
          nested ? quantized.nested->codes.size() + 4 * quantized.nested->absmax.size()
                 : 4 * quantized.absmax.size();
      EXPECT_EQ(spec.bytes_read(), quantized.codes.size() + scales) << n;
      EXPECT_EQ(spec.bytes_written(), 2 * tensor.expected.size()) << n;
    }
  }
}

TEST(Tensor, HasTheShapeAskedForAndTheStandardTable) {
  const TensorSpec spec{
      .rows = 3, .columns = 43, .block_size = 32, .nested = true, .output = WeightType::bf16};
  const auto quantized = make_tensor(spec, 1).quantized;
  EXPECT_EQ(quantized.n, 129);
  EXPECT_EQ(quantized.shape, (std::vector<std::int64_t>{3, 43}));
  EXPECT_EQ(quantized.block_size, 32);
  EXPECT_EQ(quantized.type, WeightType::bf16);
  EXPECT_EQ(quantized.table, reference::standard_table);
  EXPECT_EQ(quantized.absmax.size(), 5u);
  EXPECT_EQ(quantized.codes.size(), 65u);
  EXPECT_EQ(quantized.codes.back() & 15, 7) << "the low nibble past an odd end";
}

TEST(Tensor, NestedScalesAreTheDecodedOnes) {
  const TensorSpec spec{.rows = 64, .columns = 640, .nested = true};
  const auto nested = make_tensor(spec, 1).quantized;
  std::vector<float> decoded(nested.absmax.size());
  reference::dequantize_scales(*nested.nested, decoded);
  EXPECT_EQ(nested.absmax, decoded);
  TensorSpec plain = spec;
  plain.nested = false;
  EXPECT_FALSE(make_tensor(plain, 1).quantized.nested);
  EXPECT_NE(make_tensor(plain, 1).quantized.absmax, nested.absmax);
}

TEST(Tensor, FormatNamesWhatIsMeasured) {
  TensorSpec spec{.rows = 1, .columns = 1};
  EXPECT_EQ(spec.format(), "fp16/b64");
  spec = {.rows = 1, .columns = 1, .block_size = 4096, .nested = true, .output = WeightType::bf16};
  EXPECT_EQ(spec.format(), "bf16/b4096-nested");
  spec.data = CodeData::sorted;
  EXPECT_EQ(spec.format(), "bf16/b4096-nested/sorted");
}

/// The branch tree's divergence depends on the codes, so they must occur as in trained weights.
TEST(Tensor, CodesOccurAsThoseOfNormalWeights) {
  const auto quantized = make_tensor({.rows = 1024, .columns = 1024}, 1).quantized;
  std::array<std::int64_t, 16> count{};
  for (std::int64_t i = 0; i < quantized.n; ++i) ++count[reference::code_at(quantized.codes, i)];
  for (int code = 0; code < 16; ++code) {
    const double share = static_cast<double>(count[code]) / static_cast<double>(quantized.n);
    EXPECT_GT(share, 0.005) << code;
    EXPECT_LT(share, 0.2) << code;
  }
}

/// Rounding to the nearest table value is never off by more than the table's widest gap.
TEST(Tensor, OutputsLieBesideTheWeightsThatWereQuantized) {
  const TensorSpec spec{.rows = 16, .columns = 1000};
  const auto tensor = make_tensor(spec, 3);
  std::vector<std::uint16_t> source(tensor.expected.size());
  reference::normal_weights(3, 0, WeightType::fp16, 0.02f, source);
  for (std::size_t i = 0; i < source.size(); ++i) {
    const float gap = 0.16f * tensor.quantized.absmax[i / 64];
    EXPECT_NEAR(reference::widen_fp16(tensor.expected[i]), reference::widen_fp16(source[i]), gap)
        << i;
  }
}

}  // namespace
}  // namespace reprolab::nf4
