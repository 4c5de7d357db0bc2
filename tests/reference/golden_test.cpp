// Nested scales made by the real bitsandbytes. Its outputs and codes are checked by the program
// verify (tests/programs/verify/command_line_test.cpp).
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "reference/checkpoint/bnb_checkpoint.hpp"
#include "reference/compare.hpp"
#include "reference/nf4/nested_scales.hpp"

namespace reprolab::reference {
namespace {

/// Our offset (the mean, summed in double) may differ from the stored one, which a GPU summed in
/// fp32 in its own order, but only by as much as that explains.
TEST(Golden, DecodesNestedScalesToTheStoredBitsAndFindsTheirOffset) {
  const BnbCheckpoint golden({GOLDEN_FILE});
  int nested = 0;
  for (const auto& info : golden.tensors()) {
    if (!info.state.nested) continue;
    ++nested;
    SCOPED_TRACE(info.name);
    const QuantizedTensor tensor = golden.load(info);
    const std::string stem = info.name.substr(0, info.name.find('.'));
    const auto stored = golden.shards().read<float>(*golden.shards().find(stem + ".absmax_fp32"));
    EXPECT_TRUE(compare_bits(std::span<const float>(stored), tensor.absmax).equal());
    EXPECT_EQ(tensor.nested->map, dynamic_map());
    if (std::isinf(tensor.nested->offset)) continue;  // the kind "huge": the mean of infinities
    std::vector<std::uint8_t> codes(tensor.codes.size());
    std::vector<float> absmax(tensor.absmax.size());
    quantize(golden.load_bits(*info.source), tensor.type, tensor.block_size, codes, absmax);
    const float ours = quantize_scales(absmax).offset;
    EXPECT_NEAR(ours, tensor.nested->offset, 2e-7 * std::abs(ours));
  }
  EXPECT_EQ(nested, 30);
}

}  // namespace
}  // namespace reprolab::reference
