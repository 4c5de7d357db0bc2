// A dequantization as words: 8 codes that become 8 weights, which one 16-byte store can write,
// wherever in memory the arrays begin.
#pragma once

#include <cstdint>

#include "kernels/nf4/format.hpp"
#include "kernels/nf4/problem.hpp"

namespace reprolab::nf4 {

inline constexpr int min_per_block = 32;  ///< Weights that share a scale.

/// `count` words from weight `first` on. The first one is at the start of a cache line of the
/// output, so that a warp writes whole cache lines. Fewer than 96 weights, at both ends together,
/// are in no word.
template <class Index>
struct Words {
  const std::uint32_t* codes = nullptr;  ///< Word i begins in codes[i]; 4-byte aligned.
  Index first = 0;
  Index count = 0;
  unsigned shift = 0;  ///< Word i begins this many bits into codes[i], and may end in the next.
  /// Whether every word is one aligned word of codes in one block, 32 words are in at most 8
  /// blocks, and a map of nested scales starts at a cache line.
  bool are_aligned = true;

  Words() = default;
  template <class Other>
  explicit Words(const Words<Other>& other)
      : codes(other.codes),
        first(static_cast<Index>(other.first)),
        count(static_cast<Index>(other.count)),
        shift(other.shift),
        are_aligned(other.are_aligned) {}

  /// The words that fill whole tiles of `tile_words` words.
  Words in_tiles_of(Index tile_words) const {
    Words tiles = *this;
    tiles.count -= count % tile_words;
    if (tiles.count == 0) tiles.first = 0;
    return tiles;
  }
};

/// A word lies inside the problem's codes: a first or last word that would reach outside is left
/// out. If words are not aligned, codes[count] can be read, too.
inline Words<std::int64_t> words_of(const Problem& problem) {
  constexpr std::uintptr_t line_bytes = 128, load_bytes = 4, bits_per_weight = 4;
  const auto output = reinterpret_cast<std::uintptr_t>(problem.output);
  const auto codes = reinterpret_cast<std::uintptr_t>(problem.codes);
  Words<std::int64_t> words;
  words.first = static_cast<std::int64_t>(-output % line_bytes / 2);
  const auto begin = [&] { return codes + static_cast<std::uintptr_t>(words.first) / 2; };
  const auto aligned_begin = [&] { return begin() / load_bytes * load_bytes; };
  if (aligned_begin() < codes) words.first += line_bytes / 2;
  words.codes = reinterpret_cast<const std::uint32_t*>(aligned_begin());
  words.shift =
      static_cast<unsigned>((begin() - aligned_begin()) * 8 +
                            static_cast<std::uintptr_t>(words.first) % 2 * bits_per_weight);
  const int apart = problem.block_size > min_per_block ? weights_per_word : min_per_block;
  words.are_aligned = words.shift == 0 && words.first % apart == 0 &&
                      reinterpret_cast<std::uintptr_t>(problem.nested.map) % line_bytes == 0;
  const auto end = codes + static_cast<std::uintptr_t>(problem.n + 1) / 2;
  const auto whole =
      static_cast<std::int64_t>(end - aligned_begin()) / static_cast<std::int64_t>(load_bytes);
  const auto left = (problem.n - words.first) / weights_per_word;
  const auto loadable = whole - (words.are_aligned ? 0 : 1);
  words.count = left < loadable ? left : loadable;
  if (words.count <= 0) words.count = words.first = 0;
  return words;
}

}  // namespace reprolab::nf4
