// What outputs are checked for. That sound ones pass and faulty ones do not, the tests of kernels
// show.
#include "tests/kernels/transpose/place_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/kernels/transpose/on_gpu.hpp"

namespace reprolab::transpose {
namespace {

TEST(WordAt, NoTwoAreTheSameAndNoneIsThatOfUntouchedMemory) {
  for (const Words words : {Words::any, Words::finite}) {
    std::vector<std::uint32_t> all;
    for (std::uint64_t i = 0; i < 1 << 20; ++i) all.push_back(word_at(words, i));
    const auto nans = std::ranges::count_if(
        all, [](std::uint32_t bits) { return !std::isfinite(std::bit_cast<float>(bits)); });
    EXPECT_EQ(nans > 4000, words == Words::any) << "one pattern in 128 is a NaN";
    EXPECT_TRUE(words == Words::any || nans == 0);
    std::ranges::sort(all);
    EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
    EXPECT_FALSE(std::ranges::binary_search(all, untouched));
  }
}

class OnGpuPlaceCheck : public OnGpuTest {};

TEST_F(OnGpuPlaceCheck, SeesAWriteToTheInput) {
  const profiling::Stream stream;
  PlaceCheck check(Words::any, 1000, 1000, stream.get());
  float* const input = const_cast<float*>(check.problem(tight(10, 10)).input);
  profiling::check(cudaMemset(input + 77, 0, sizeof(float)), "planting a fault");
  EXPECT_EQ(check.changed_input_words(), 1);
}

}  // namespace
}  // namespace reprolab::transpose
