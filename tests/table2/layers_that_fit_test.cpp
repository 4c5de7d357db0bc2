#include <gtest/gtest.h>

#include "experiments/harness/errors.hpp"
#include "experiments/nf4/tensor.hpp"
#include "experiments/table2/replay.hpp"
#include "tests/message_of.hpp"

namespace reprolab::table2 {
namespace {

const nf4::Model model{"small", 10, {{"q", 128, 64}, {"o", 64, 128}, {"gate", 256, 64}}};

TEST(LayersThatFit, BytesAreThoseOfEveryMatrix) {
  // 8192, 8192 and 16384 weights: codes and a scale each 64.
  EXPECT_EQ(layer_bytes(model), 2u * (4096 + 4 * 128) + 8192 + 4 * 256);
}

TEST(LayersThatFit, WorkingMemoryHoldsEachDistinctMatrixOnceWithItsOutputs) {
  constexpr std::uint64_t reserve = std::uint64_t{1} << 30;
  const std::uint64_t outputs = 2 * 16384 + 3 * 2 * (8192 + 16384);
  const std::uint64_t inputs = 4096 + 4 * 128 + 8192 + 4 * 256;
  EXPECT_EQ(working_bytes(model, 8), reserve + outputs + inputs + 4 * 8 * 256);
}

TEST(LayersThatFit, AreAllWhereThereIsRoomAndNeverMore) {
  const std::uint64_t all = working_bytes(model, 8) + 10 * layer_bytes(model);
  EXPECT_EQ(layers_that_fit(model, 8, all), 10);
  EXPECT_EQ(layers_that_fit(model, 8, all * 100), 10);
}

TEST(LayersThatFit, AreAsManyAsThereIsRoomFor) {
  const std::uint64_t working = working_bytes(model, 8);
  EXPECT_EQ(layers_that_fit(model, 8, working + 10 * layer_bytes(model) - 1), 9);
  EXPECT_EQ(layers_that_fit(model, 8, working + layer_bytes(model)), 1);
}

TEST(LayersThatFit, ThatNotOneFitsIsAnErrorWithItsCure) {
  const std::uint64_t working = working_bytes(model, 8);
  EXPECT_EQ(
      message_of<UsageError>([&] { layers_that_fit(model, 8, working + layer_bytes(model) - 1); }),
      "small: one layer and its outputs take 1.1 GB of device memory, 1.1 GB are free; leave "
      "the model out with --models");
  EXPECT_EQ(message_of<UsageError>([&] { layers_that_fit(model, 8, 0); }),
            "small: one layer and its outputs take 1.1 GB of device memory, 0.0 GB are free; leave "
            "the model out with --models");
}

}  // namespace
}  // namespace reprolab::table2
