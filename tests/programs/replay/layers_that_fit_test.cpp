// What a forward pass moves, and how many layers of a model fit a GPU.
#include <gtest/gtest.h>

#include "programs/replay/replay.hpp"

namespace reprolab::nf4 {
namespace {

const Model model{"small", 10, {{"q", 128, 64}, {"o", 64, 128}, {"gate", 256, 64}}};
const TensorSpec plain{}, nested{.nested = true};

TEST(LayersThatFit, AreThoseForWhichThereIsRoom) {
  // 8192, 8192 and 16384 weights: codes, and a scale for each 64 of them; nested, scales of one
  // byte, and 4 bytes for each 256 scales.
  const std::uint64_t layer = 2 * (4096 + 4 * 128) + 8192 + 4 * 256;
  EXPECT_EQ(layer_bytes(model, plain), layer);
  EXPECT_EQ(layer_bytes(model, nested), 2u * (4096 + 128 + 4) + 8192 + 256 + 4);
  // Each size's different matrices with their outputs.
  constexpr std::uint64_t reserve = std::uint64_t{1} << 30;
  const std::uint64_t inputs = 2 * (4096 + 4 * 128 + 8192 + 4 * 256);
  const std::uint64_t outputs = 5 * 2 * (8192 + 16384), largest = 2 * 16384;
  const std::uint64_t working = reserve + largest + outputs + inputs + 4 * 8 * 256;
  EXPECT_EQ(working_bytes(model, plain, 8), working);

  std::string why_none;
  const auto fitting = [&](std::uint64_t bytes) {
    return layers_that_fit(model, plain, 8, bytes, why_none);
  };
  EXPECT_EQ(fitting(100 * working), 10) << "never more than there are";
  EXPECT_EQ(fitting(working + 10 * layer), 10);
  EXPECT_EQ(fitting(working + 10 * layer - 1), 9);
  EXPECT_EQ(fitting(working + layer), 1);
  EXPECT_EQ(why_none, "");
  EXPECT_EQ(fitting(working + layer - 1), 0);
  EXPECT_EQ(why_none, "one layer and its outputs take 1.1 GB of device memory, 1.1 GB are free");
}

TEST(PassFacts, LeastTimeIsOfWhatIsReadAndWhatOutgrowsTheCache) {
  profiling::Gpu gpu;
  gpu.l2_bytes = 20'000;  // the outputs are 16384, 16384 and 32768 bytes
  EXPECT_EQ(min_pass_us(model, plain, gpu), 0) << "of an unknown bandwidth";
  gpu.theoretical_bandwidth_gb_s = 1;
  const auto read = static_cast<double>(10 * layer_bytes(model, plain));
  EXPECT_DOUBLE_EQ(min_pass_us(model, plain, gpu), 1e-3 * (read + 10 * (32'768 - 20'000)));
}

TEST(PassFacts, DescribeThePassAndTheLayersWhereTheyAreKnown) {
  const ProblemFacts facts = pass_facts(model, nested, 8, 3);
  EXPECT_EQ(facts.description, nlohmann::json::parse(R"({
    "name": "small/batch8/fp16/b64-nested", "family": "nf4", "model": "small", "batch": 8,
    "layers": 10, "launches": 30, "weights": 327680, "block_size": 64, "nested": true,
    "output": "fp16", "layers_resident": 3, "weights_resident": 98304})"));
  EXPECT_FALSE(pass_facts(model, nested, 8).description.contains("layers_resident"));
  EXPECT_EQ(facts.bytes_read, 10 * layer_bytes(model, nested));
  EXPECT_EQ(facts.bytes_written, 2u * 327680);
}

}  // namespace
}  // namespace reprolab::nf4
