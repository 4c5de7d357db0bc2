#include "harness/programs/latency/cycle.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

namespace reprolab::latency {
namespace {

/// Number of links from `start` until it is reached again.
std::uint32_t cycle_length(const Next& next, std::uint32_t start) {
  std::uint32_t length = 1;
  for (std::uint32_t node = next.at(start); node != start; node = next.at(node)) {
    if (++length > next.size()) return 0;  // start is on no cycle: no permutation
  }
  return length;
}

/// The six cycles of four nodes, each equally often: 1000 of 6000, give or take 29.
TEST(Cycle, IsAnyOfThemEquallyLikely) {
  std::map<Next, int> seen;
  for (std::uint64_t seed = 0; seed < 6000; ++seed) ++seen[make_cycles({1, 4}, true, seed)];
  EXPECT_EQ(seen.size(), 6u);
  for (const auto& [next, count] : seen) EXPECT_NEAR(count, 1000, 6 * 29);
}

TEST(Cycle, GroupByGroupFinishesAGroupBeforeItEntersTheNext) {
  for (const Nodes nodes : {Nodes{1, 1}, {1, 3}, {1, 16383}, {5, 1}, {2, 2}, {7, 16}, {50, 64}}) {
    const Next next = make_cycles(nodes, true, 4);
    EXPECT_EQ(cycle_length(next, 0), nodes.count());
    std::uint32_t entered = 0, to_the_neighbour = 0;
    for (std::uint32_t node = 0; node < nodes.count(); ++node) {
      entered += next[node] / nodes.per_group != node / nodes.per_group;
      to_the_neighbour += next[node] / nodes.per_group == node / nodes.per_group + 1;
    }
    EXPECT_EQ(entered, nodes.groups > 1 ? nodes.groups : 0);
    if (nodes.groups > 10) {
      EXPECT_LT(to_the_neighbour, 8u) << "groups come in random order";
    }
  }
}

}  // namespace
}  // namespace reprolab::latency
