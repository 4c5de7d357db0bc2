#include "programs/latency/cycle.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <utility>

namespace reprolab::latency {
namespace {

using Random = std::mt19937_64;  // the same numbers with every standard library

/// Makes a random permutation of consecutive numbers that is one cycle (Sattolo, 1986): as Fisher
/// and Yates shuffle, but no element may stay where it is.
void shuffle_to_one_cycle(std::span<std::uint32_t> next, Random& random) {
  for (std::size_t i = next.size(); i > 1; --i) std::swap(next[i - 1], next[random() % (i - 1)]);
}

Next cycles(Nodes nodes, Random& random) {
  Next next(nodes.count());
  std::iota(next.begin(), next.end(), 0u);
  for (std::uint32_t group = 0; group < nodes.groups; ++group) {
    shuffle_to_one_cycle(
        std::span(next).subspan(std::size_t{group} * nodes.per_group, nodes.per_group), random);
  }
  return next;
}

}  // namespace

Next cycle_in_each_group(Nodes nodes, std::uint64_t seed) {
  Random random(seed);
  return cycles(nodes, random);
}

Next cycle_group_by_group(Nodes nodes, std::uint64_t seed) {
  Random random(seed);
  Next next = cycles(nodes, random);
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

std::uint32_t node_after(const Next& next, std::uint32_t start, std::int64_t links) {
  std::uint32_t node = start;
  for (std::int64_t i = 0; i < links; ++i) node = next[node];
  return node;
}

}  // namespace reprolab::latency
