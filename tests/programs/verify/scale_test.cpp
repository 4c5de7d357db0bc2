// Headers as large as the format allows, and of any composition: read whole, or refused in one
// line.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "reference/checkpoint/bnb_checkpoint.hpp"
#include "tests/message_of.hpp"
#include "tests/programs/verify/checkpoint_builder.hpp"
#include "tests/text.hpp"

namespace reprolab::reference {
namespace {

/// As many tensors as a mixture-of-experts model has.
TEST(Scale, AHundredAndSixtyThousandTensorsAreAllFound) {
  constexpr int layers = 20'000;
  std::vector<BuilderTensor> tensors;
  const auto layer = valid_tensors({.nested = true, .rows = 1, .columns = 64});
  for (int i = 0; i < layers; ++i) {
    for (BuilderTensor tensor : layer) {
      tensor.name.replace(0, 5, fmt::format("model.layers.{}.experts.{}", i / 1000, i % 1000));
      tensors.push_back(std::move(tensor));
    }
    tensors.push_back({fmt::format("norm.{}", i), "BF16", {1}, "ab"});
  }
  ASSERT_EQ(tensors.size(), 160'000u);
  const OwnFolder folder;
  const BnbCheckpoint checkpoint({folder.write("a.safetensors", safetensors_bytes(tensors))});
  EXPECT_EQ(checkpoint.shards().tensor_count(), 160'000u);
  EXPECT_EQ(describe(checkpoint.other_tensors()), "20000 tensors of BF16");
  ASSERT_EQ(checkpoint.tensors().size(), 20'000u);
  EXPECT_EQ(checkpoint.tensors().front().name, "model.layers.0.experts.0.weight");
  EXPECT_EQ(checkpoint.tensors().back().name, "model.layers.9.experts.999.weight");
  for (const auto& info : {checkpoint.tensors().front(), checkpoint.tensors().back()}) {
    EXPECT_EQ(dequantize(checkpoint.load(info, 1), 1), checkpoint.load_bits(*info.dequantized));
  }
}

constexpr int many = 1'000'000;

std::string repeated(const std::string& text) {
  std::string result;
  for (int i = 0; i < many; ++i) result += (i == 0 ? "" : ",") + text;
  return result;
}

ShardSet read_header(const std::string& header, const std::string& data = "") {
  const MemoryFile file;
  return ShardSet({file.write(safetensors_bytes(header, data))});
}

constexpr const char* entry = R"("dtype":"U8","data_offsets":[0,1])";

TEST(Scale, ALongShapeIsATensor) {
  const auto shards =
      read_header(fmt::format(R"({{"t":{{{},"shape":[{}]}}}})", entry, repeated("1")), "x");
  EXPECT_EQ(shards.find("t")->info->elements, 1);
}

TEST(Scale, ALongNameIsAName) {
  const std::string name(10 * many, 'n');
  const auto shards = read_header(fmt::format(R"({{"{}":{{{},"shape":[]}}}})", name, entry), "x");
  EXPECT_NE(shards.find(name), nullptr);
}

TEST(Scale, ManyMetadataAreNoTensors) {
  std::string metadata;
  for (int i = 0; i < many; ++i) metadata += fmt::format("{}\"{}\":\"\"", i == 0 ? "" : ",", i);
  EXPECT_EQ(read_header(R"({"__metadata__":{)" + metadata + "}}").tensor_count(), 0u);
  EXPECT_TRUE(contains(message_of<InvalidFile>([&] {
                         read_header(R"({"__metadata__":{)" + metadata + R"(,"777":""}})");
                       }),
                       "the header has the key '777' twice"));
}

TEST(Scale, ManyWrongEntriesGetOneLine) {
  std::string entries;
  for (int i = 0; i < many; ++i) entries += fmt::format("{}\"{}\":{{}}", i == 0 ? "" : ",", i);
  EXPECT_TRUE(contains(message_of<InvalidFile>([&] { read_header("{" + entries + "}"); }),
                       "tensor '0' has no 'dtype' in the header"));
}

}  // namespace
}  // namespace reprolab::reference
