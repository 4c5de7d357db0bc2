// How many layers of a model fit a GPU, and the message if none does.
#include <gtest/gtest.h>

#include "programs/replay/replay.hpp"

namespace reprolab::nf4 {
namespace {

const Model model{"small", 10, {{"q", 128, 64}, {"o", 64, 128}, {"gate", 256, 64}}};
const TensorSpec plain{}, nested{.nested = true};

TEST(LayersThatFit, BytesAreThoseOfEveryMatrix) {
  // 8192, 8192 and 16384 weights: codes, and a scale for each 64 of them.
  EXPECT_EQ(layer_bytes(model, plain), 2u * (4096 + 4 * 128) + 8192 + 4 * 256);
  // Scales of one byte, and 4 bytes for each 256 scales.
  EXPECT_EQ(layer_bytes(model, nested), 2u * (4096 + 128 + 4) + 8192 + 256 + 4);
}

TEST(LayersThatFit, WorkingMemoryHoldsEachSizesDifferentMatricesWithTheirOutputs) {
  constexpr std::uint64_t reserve = std::uint64_t{1} << 30;
  const std::uint64_t inputs = 2 * (4096 + 4 * 128 + 8192 + 4 * 256);
  const std::uint64_t outputs = 5 * 2 * (8192 + 16384), largest = 2 * 16384;
  EXPECT_EQ(working_bytes(model, plain, 8), reserve + largest + outputs + inputs + 4 * 8 * 256);
}

/// How many layers fit in `bytes` of free device memory.
std::int64_t fitting(std::uint64_t bytes, std::string* why_none = nullptr) {
  std::string why;
  return layers_that_fit(model, plain, 8, bytes, why_none ? *why_none : why);
}

TEST(LayersThatFit, AreAllWhereThereIsRoomAndNeverMore) {
  const std::uint64_t all = working_bytes(model, plain, 8) + 10 * layer_bytes(model, plain);
  EXPECT_EQ(fitting(all), 10);
  EXPECT_EQ(fitting(all * 100), 10);
}

TEST(LayersThatFit, AreAsManyAsThereIsRoomFor) {
  const std::uint64_t working = working_bytes(model, plain, 8), layer = layer_bytes(model, plain);
  EXPECT_EQ(fitting(working + 10 * layer - 1), 9);
  EXPECT_EQ(fitting(working + layer), 1);
}

TEST(LayersThatFit, AreNoneWithTheReasonWhereNotOneFits) {
  const std::uint64_t working = working_bytes(model, plain, 8), layer = layer_bytes(model, plain);
  std::string why_none;
  EXPECT_EQ(fitting(working + layer - 1, &why_none), 0);
  EXPECT_EQ(why_none, "one layer and its outputs take 1.1 GB of device memory, 1.1 GB are free");
  EXPECT_EQ(fitting(0, &why_none), 0);
  EXPECT_EQ(why_none, "one layer and its outputs take 1.1 GB of device memory, 0.0 GB are free");
}

TEST(PassFacts, LeastTimeIsOfWhatIsReadAndWhatOutgrowsTheCache) {
  const PassFacts facts{model, plain, 8};
  profiling::Gpu gpu;
  gpu.l2_bytes = 20'000;  // the outputs are 16384, 16384 and 32768 bytes
  EXPECT_EQ(facts.min_us(gpu), 0) << "of an unknown bandwidth";
  gpu.theoretical_bandwidth_gb_s = 1;
  const auto read = static_cast<double>(10 * layer_bytes(model, plain));
  EXPECT_DOUBLE_EQ(facts.min_us(gpu), 1e-3 * (read + 10 * (32'768 - 20'000)));
}

TEST(PassFacts, DescribeThePassAndTheLayersOnlyWhereTheyAreKnown) {
  const PassFacts facts{model, nested, 8};
  EXPECT_EQ(facts.name(), "small/batch8/fp16/b64-nested");
  nlohmann::json expected = nlohmann::json::parse(
      R"({"name": "small/batch8/fp16/b64-nested", "family": "nf4", "model": "small", "batch": 8,
          "layers": 10, "launches": 30, "weights": 327680, "block_size": 64, "nested": true,
          "output": "fp16"})");
  EXPECT_EQ(facts.describe(), expected);
  expected["layers_resident"] = 3;
  expected["weights_resident"] = 3 * 32768;
  EXPECT_EQ(facts.describe(3), expected);
  EXPECT_EQ(facts.bytes_read(), 10 * layer_bytes(model, nested));
  EXPECT_EQ(facts.bytes_written(), 2u * 327680);
}

}  // namespace
}  // namespace reprolab::nf4
