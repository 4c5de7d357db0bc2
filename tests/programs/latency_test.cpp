// The rows of latency, and the orders of their nodes; chases on the GPU end where the host's end,
// and wrong chains are found.
#include "harness/programs/latency/chases.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>

#include "tests/on_gpu.hpp"

namespace reprolab::latency {
namespace {

using profiling::latency::Chain;
using profiling::latency::Link;
using profiling::latency::links_followed;

constexpr std::uint64_t l2_bytes = 60u << 20;

/// A chase ends at another node than the first, otherwise a chase without loads would look right;
/// and it covers all of a cached chain before its timed steps, or never all of a long chain.
TEST(Spaces, HaveLinksForADistinctEndAndCachesHoldAllOrNothing) {
  for (const Space& space : spaces(l2_bytes)) {
    const std::int64_t links = links_followed(space.step);
    const std::int64_t cycle = space.one_cycle ? space.nodes.count() : space.nodes.per_group;
    EXPECT_EQ(links % cycle == 0, space.step == Step::empty) << space.name;
    const std::int64_t untimed = profiling::latency::timed_steps;
    EXPECT_TRUE(cycle <= untimed || cycle > 100 * untimed) << space.name;
  }
}

/// The bytes of an address: in global memory, or on the chip.
std::uint32_t node_bytes(Step step) {
  return step == Step::global_through_l1 || step == Step::global_past_l1 ? 8 : 4;
}

class OnGpuLatency : public OnGpuTest {};

/// The last node of the chase of a chain of adjacent nodes.
std::uint32_t end_of(Step step, const Next& next) {
  const std::uint32_t node = node_bytes(step);
  std::vector<Link> links;
  for (std::uint32_t i = 0; i < next.size(); ++i) links.push_back({i * node, next[i] * node});
  Chain chain(step, links, static_cast<std::uint32_t>(next.size()) * node);
  chain.enqueue(0, nullptr);
  profiling::check(cudaDeviceSynchronize(), "a chase");
  return chain.walked().end / node;
}

/// `wrong` leaves out a node of the cycle that the host follows.
void expect_told_apart(Step step, const Next& right, const Next& wrong) {
  const std::uint32_t expected = node_after(right, 0, profiling::latency::links_followed(step));
  EXPECT_NE(expected, 0u) << "or a chase that goes nowhere would look right";
  EXPECT_EQ(end_of(step, right), expected) << static_cast<int>(step);
  EXPECT_NE(end_of(step, wrong), expected) << static_cast<int>(step);
}

TEST_F(OnGpuLatency, AWrongLinkIsAWrongEnd) {
  for (const Step step :
       {Step::global_through_l1, Step::global_past_l1, Step::constant, Step::shared}) {
    expect_told_apart(step, {3, 4, 5, 2, 7, 1, 8, 6, 0}, {3, 4, 1, 2, 7, 5, 8, 6, 0});
  }
  for (const Step step : {Step::shared_store, Step::shared_store_to_load}) {
    expect_told_apart(step, {3, 4, 5, 2, 7, 1, 0, 6}, {3, 4, 1, 2, 7, 5, 0, 6});
  }
}

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
