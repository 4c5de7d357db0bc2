// The shapes of models' layers, and the data of their matrices.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "harness/errors.hpp"
#include "harness/nf4/tensor.hpp"
#include "harness/result_file.hpp"

namespace reprolab::nf4 {
namespace {

using nlohmann::json;

std::filesystem::path models_file() { return project_root() / "data/models.json"; }

TEST(Layers, WeightsAndLaunchesOfEveryModelAreThosePublished) {
  const auto models = read_models(models_file());
  const json file = read_json(models_file());
  ASSERT_EQ(models.size(), file["models"].size());
  int published = 0;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const json& entry = file["models"][i];
    EXPECT_EQ(models[i].id, entry["id"].get<std::string>());
    EXPECT_EQ(models[i].layers, entry["layers"].get<std::int64_t>());
    if (!entry.contains("nf4_weights")) continue;
    ++published;
    EXPECT_EQ(models[i].weights(), entry["nf4_weights"].get<std::int64_t>()) << models[i].id;
    EXPECT_EQ(models[i].launches(), entry["launches_per_forward"].get<std::int64_t>())
        << models[i].id;
  }
  EXPECT_GE(published, 4);
}

using reference::WeightType;

constexpr std::array all = {CodeData::normal, CodeData::sorted, CodeData::uniform, CodeData::equal};

std::vector<int> codes_of(const Tensor& tensor) {
  std::vector<int> codes;
  for (std::int64_t i = 0; i < tensor.quantized.n; ++i) {
    codes.push_back(reference::code_at(tensor.quantized.codes, i));
  }
  return codes;
}

Tensor tensor_with(CodeData data, std::int64_t rows = 512, std::int64_t columns = 512) {
  return make_tensor({.rows = rows, .columns = columns, .data = data}, 1);
}

TEST(Tensor, BytesAreThoseOfTheArrays) {
  for (const bool nested : {false, true}) {
    for (const std::int64_t n : {1, 2, 63, 64, 65, 16384, 16385, 100003}) {
      const TensorSpec odd{.rows = 1, .columns = n, .nested = nested};
      const auto tensor = make_tensor(odd, 1);
      const auto& quantized = tensor.quantized;
      const std::size_t scales =
          nested ? quantized.nested->codes.size() + 4 * quantized.nested->absmax.size()
                 : 4 * quantized.absmax.size();
      EXPECT_EQ(odd.bytes_read(), quantized.codes.size() + scales) << n;
      EXPECT_EQ(odd.bytes_written(), 2 * tensor.expected.size()) << n;
    }
  }
}

TEST(Tensor, HasTheShapeAskedForTheStandardTableAndDecodedScales) {
  const TensorSpec spec{
      .rows = 3, .columns = 43, .block_size = 32, .nested = true, .output = WeightType::bf16};
  const auto quantized = make_tensor(spec, 1).quantized;
  EXPECT_EQ(quantized.n, 129);
  EXPECT_EQ(quantized.shape, (std::vector<std::int64_t>{3, 43}));
  EXPECT_EQ(quantized.block_size, 32);
  EXPECT_EQ(quantized.type, WeightType::bf16);
  EXPECT_EQ(quantized.table, reference::standard_table);
  EXPECT_EQ(quantized.codes.size(), 65u);
  EXPECT_EQ(quantized.codes.back() & 15, 7) << "the low nibble past an odd end";
  std::vector<float> decoded(5);
  reference::dequantize_scales(*quantized.nested, decoded);
  EXPECT_EQ(quantized.absmax, decoded);
  TensorSpec plain = spec;
  plain.nested = false;
  EXPECT_FALSE(make_tensor(plain, 1).quantized.nested);
}

/// The branch tree's divergence depends on the codes, so they must occur as in trained weights.
TEST(Tensor, CodesOccurAsThoseOfNormalWeights) {
  const auto codes = codes_of(tensor_with(CodeData::normal));
  const auto share = [&](int code) {
    return static_cast<double>(std::ranges::count(codes, code)) / static_cast<double>(codes.size());
  };
  for (int code = 0; code < 16; ++code) {
    EXPECT_GT(share(code), 0.005) << code;
    EXPECT_LT(share(code), 0.2) << code;
  }
  EXPECT_GT(share(7), 2 * share(0));
  EXPECT_GT(share(7), 2 * share(15));
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
