// The division of a problem into words, for every alignment of its arrays. Needs no GPU.
#include "kernels/nf4/words.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace reprolab::nf4 {
namespace {

/// Codes that begin at any place of 16 aligned bytes, and an output at any place of a cache line.
struct Place {
  alignas(16) std::uint8_t codes[16 + 256];
  alignas(128) std::uint16_t output[64 + 512];

  Problem problem(int codes_at, int output_at, std::int64_t n) {
    Problem problem;
    problem.codes = codes + codes_at;
    problem.output = output + output_at;
    problem.n = n;
    return problem;
  }
};

unsigned code_of(const Problem& problem, std::int64_t weight) {
  const std::uint8_t byte = problem.codes[weight / 2];
  return weight % 2 == 0 ? first_code(byte) : second_code(byte);
}

TEST(Words, HoldTheCodesOfTheirWeightsAndReadNothingElse) {
  static Place place;
  std::mt19937 random(1);
  for (auto& byte : place.codes) byte = static_cast<std::uint8_t>(random());
  for (int codes_at = 0; codes_at < 16; ++codes_at) {
    for (int output_at = 0; output_at < 64; ++output_at) {
      for (std::int64_t n = 0; n < 200; ++n) {
        SCOPED_TRACE(testing::Message() << codes_at << ", " << output_at << ", " << n);
        const Problem problem = place.problem(codes_at, output_at, n);
        const auto words = words_of(problem);
        ASSERT_EQ(words.shift % 4, 0u);
        ASSERT_LT(words.shift, 32u);
        const auto* const end = reinterpret_cast<const std::uint8_t*>(words.codes + words.count +
                                                                      (words.are_aligned ? 0 : 1));
        if (words.count > 0) {
          ASSERT_GE(reinterpret_cast<const std::uint8_t*>(words.codes), problem.codes);
          ASSERT_LE(end, problem.codes + (n + 1) / 2);
          ASSERT_EQ(reinterpret_cast<std::uintptr_t>(place.output + output_at + words.first) % 128,
                    0u);
        }
        ASSERT_GE(words.first, 0);
        ASSERT_LE(words.first + words.count * weights_per_word, n);
        ASSERT_LT(n - words.count * weights_per_word, 96);
        for (std::int64_t word = 0; word < words.count; ++word) {
          const std::uint32_t next = words.are_aligned ? 0 : words.codes[word + 1];
          const EntryOffsets offsets = entry_offsets(words.codes[word], next, words.shift);
          for (int i = 0; i < weights_per_word; ++i) {
            ASSERT_EQ(offsets.of(i) / sizeof(float),
                      code_of(problem, words.first + word * weights_per_word + i));
          }
        }
      }
    }
  }
}

TEST(Words, AreAlignedIfCodesScalesAndTheirMapAre) {
  static Place place;
  alignas(128) static const float map[256 + 32] = {};
  for (const int block_size : {32, 64, 4096}) {
    for (int codes_at = 0; codes_at < 16; ++codes_at) {
      for (int output_at = 0; output_at < 64; ++output_at) {
        for (const int map_at : {0, 1, 31, 32}) {
          Problem problem = place.problem(codes_at, output_at, 200);
          problem.block_size = block_size;
          problem.nested.map = map + map_at;
          const int codes_before = (64 - output_at) % 64 / 2;  // bytes, before the first word
          EXPECT_EQ(words_of(problem).are_aligned, output_at % (block_size == 32 ? 32 : 8) == 0 &&
                                                       (codes_at + codes_before) % 4 == 0 &&
                                                       map_at % 32 == 0)
              << block_size << ", " << codes_at << ", " << output_at << ", " << map_at;
        }
      }
    }
  }
}

TEST(Words, InTilesFillWholeTiles) {
  static Place place;
  const auto words = words_of(place.problem(0, 32, 232));
  ASSERT_EQ(words.first, 32);
  ASSERT_EQ(words.count, 25);
  for (const std::int64_t tile_words : {1, 5, 25}) {
    EXPECT_EQ(words.in_tiles_of(tile_words).count, 25);
    EXPECT_EQ(words.in_tiles_of(tile_words).first, 32);
  }
  EXPECT_EQ(words.in_tiles_of(8).count, 24);
  EXPECT_EQ(words.in_tiles_of(26).count, 0);
  EXPECT_EQ(words.in_tiles_of(26).first, 0) << "no weight comes before words that are not there";
}

}  // namespace
}  // namespace reprolab::nf4
