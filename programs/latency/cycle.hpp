// The order in which a chain's nodes are walked: random, so that no prefetcher can know the next.
#pragma once

#include <cstdint>
#include <vector>

namespace reprolab::latency {

/// For each node the one that it leads to.
using Next = std::vector<std::uint32_t>;

/// Nodes in groups of consecutive ones.
struct Nodes {
  std::uint32_t groups = 1, per_group = 1;
  std::uint32_t count() const { return groups * per_group; }
};

/// Each group is a cycle through all of its nodes, by Sattolo's shuffle; depends only on the
/// arguments.
Next cycle_in_each_group(Nodes nodes, std::uint64_t seed);

/// One cycle through all nodes, which finishes a group before it enters the next; groups and the
/// nodes in them in random order. With one group this is Sattolo's cycle.
Next cycle_group_by_group(Nodes nodes, std::uint64_t seed);

/// The node that is reached from `start` after so many links.
std::uint32_t node_after(const Next& next, std::uint32_t start, std::int64_t links);

}  // namespace reprolab::latency
