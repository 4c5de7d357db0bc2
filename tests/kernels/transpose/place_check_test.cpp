// The words that outputs are checked for, on the host, compared with the reference's transpose.
#include "tests/kernels/transpose/place_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/kernels/transpose/on_gpu.hpp"

namespace reprolab::transpose {
namespace {

constexpr std::int64_t guard = 100;

/// The reference's transpose of the input at `matrix`'s place, with guards.
std::vector<std::uint32_t> by_reference(const Placement& matrix, Words words) {
  std::vector<std::uint32_t> input;
  for (std::int64_t i = 0; i < matrix.input_words(); ++i) {
    input.push_back(word_at(words, static_cast<std::uint64_t>(matrix.in_offset + i)));
  }
  std::vector<std::uint32_t> output(static_cast<std::size_t>(matrix.output_words()), untouched);
  reference::transpose(input, {matrix.rows, matrix.columns, matrix.in_stride}, output,
                       matrix.out_stride);
  output.insert(output.begin(), guard, untouched);
  output.insert(output.end(), guard, untouched);
  return output;
}

TEST(WantedWord, IsTheReferencesTransposeAmongUntouchedWords) {
  for (const Words words : {Words::any, Words::finite}) {
    for (const std::int64_t rows : {1, 2, 31, 64, 70}) {
      for (const std::int64_t columns : {1, 3, 32, 65}) {
        for (const int room : {0, 1, 7}) {
          const Placement matrix = {.rows = rows,
                                    .columns = columns,
                                    .in_stride = columns + room,
                                    .out_stride = rows + 2 * room,
                                    .in_offset = room % 4,
                                    .out_offset = 3};
          const auto expected = by_reference(matrix, words);
          std::vector<std::uint32_t> wanted;
          for (std::int64_t at = -guard; at < matrix.output_words() + guard; ++at) {
            wanted.push_back(wanted_word(matrix, words, at));
          }
          EXPECT_EQ(wanted, expected) << describe(matrix);
        }
      }
    }
  }
}

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
