// How many times shared memory must be read for one access of a warp: it has 32 banks of 4 bytes,
// each of which gives one word at a time (CUDA C++ Programming Guide, "Shared memory").
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <vector>

namespace reprolab::transpose {

inline constexpr int banks = 32, warp = 32;

/// The words of each bank that the lanes access; lanes that access the same word share it. `words`
/// count from a multiple of 128 bytes.
inline std::map<int, std::set<int>> words_by_bank(std::span<const int> words) {
  std::map<int, std::set<int>> by_bank;
  for (const int word : words) by_bank[word % banks].insert(word);
  return by_bank;
}

/// The most words that one bank must give: 1 without a conflict, n for an n-way conflict.
inline int ways(std::span<const int> words) {
  std::size_t most = 0;
  for (const auto& [bank, wanted] : words_by_bank(words)) most = std::max(most, wanted.size());
  return static_cast<int>(most);
}

/// The same for accesses of 16 bytes, which are served a quarter of a warp at a time: the worst
/// quarter. `float4s` are the lanes' indices in units of 16 bytes.
inline int ways_of_float4s(std::span<const int> float4s) {
  constexpr std::size_t quarter = 8;
  int worst = 0;
  for (std::size_t begin = 0; begin < float4s.size(); begin += quarter) {
    std::vector<int> words;
    for (const int float4 : float4s.subspan(begin, std::min(quarter, float4s.size() - begin))) {
      for (int i = 0; i < 4; ++i) words.push_back(4 * float4 + i);
    }
    worst = std::max(worst, ways(words));
  }
  return worst;
}

/// The indices that the 32 lanes of a warp access; `index` is a function of the thread.
template <class Index>
std::array<int, warp> of_warp(int first_thread, Index index) {
  std::array<int, warp> all{};
  for (int lane = 0; lane < warp; ++lane) {
    all[static_cast<std::size_t>(lane)] = index(first_thread + lane);
  }
  return all;
}

}  // namespace reprolab::transpose
