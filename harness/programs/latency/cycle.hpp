// The order in which a chase visits a chain's nodes: random, so that no prefetcher can predict the
// next.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace reprolab::latency {

/// For each node its successor.
using Next = std::vector<std::uint32_t>;

/// Nodes in groups of consecutive ones.
struct Nodes {
  std::uint32_t groups = 1, per_group = 1;
  std::uint32_t count() const { return groups * per_group; }
};

/// Makes a random permutation of consecutive numbers that is one cycle (Sattolo, 1986): a
/// Fisher-Yates shuffle in which no element may stay in place.
inline void shuffle_to_one_cycle(std::span<std::uint32_t> next, std::mt19937_64& random) {
  for (std::size_t i = next.size(); i > 1; --i) std::swap(next[i - 1], next[random() % (i - 1)]);
}

/// A cycle through all nodes of each group; or one cycle through all nodes, which finishes a group
/// before it enters the next, groups in random order. Depends only on the arguments.
inline Next make_cycles(Nodes nodes, bool one_cycle, std::uint64_t seed) {
  std::mt19937_64 random(seed);  // the same numbers with every standard library
  Next next(nodes.count());
  std::iota(next.begin(), next.end(), 0u);
  for (std::uint32_t first = 0; first < nodes.count(); first += nodes.per_group) {
    shuffle_to_one_cycle(std::span(next).subspan(first, nodes.per_group), random);
  }
  if (!one_cycle) return next;
  Next after(nodes.groups);
  std::iota(after.begin(), after.end(), 0u);
  shuffle_to_one_cycle(after, random);
  // The link that closes a group's cycle, back to the group's first node, leads on to the next
  // group's first node instead.
  for (std::uint32_t group = 0; group < nodes.groups; ++group) {
    const std::uint32_t first = group * nodes.per_group;
    const auto begin = next.begin() + first;
    *std::find(begin, begin + nodes.per_group, first) = after[group] * nodes.per_group;
  }
  return next;
}

/// The node that is reached from `start` after `links` links.
inline std::uint32_t node_after(const Next& next, std::uint32_t start, std::int64_t links) {
  std::uint32_t node = start;
  for (std::int64_t i = 0; i < links; ++i) node = next[node];
  return node;
}

}  // namespace reprolab::latency
