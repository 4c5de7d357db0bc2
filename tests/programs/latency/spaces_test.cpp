// The rows of the program; needs no GPU.
#include "programs/latency/spaces.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>

namespace reprolab::latency {
namespace {

using profiling::latency::links_followed;

constexpr std::uint64_t l2_bytes = 60u << 20;

TEST(Spaces, HaveNamesAndChainsOfTheirOwn) {
  std::set<std::string> names, rows;
  for (const Space& space : spaces(l2_bytes)) {
    names.insert(space.name);
    const auto problem = space.describe();
    EXPECT_EQ(problem["family"], "latency");
    EXPECT_LE(space.what.size(), 200u) << "the schema's limit";
    rows.insert(problem["name"].get<std::string>() + "/" + space.name);
  }
  EXPECT_EQ(names.size(), spaces(l2_bytes).size());
  EXPECT_EQ(rows.size(), names.size());
}

/// Or a walk that loads nothing would look right.
TEST(Spaces, AreWalkedToAnotherNodeThanTheFirst) {
  for (const Space& space : spaces(l2_bytes)) {
    const std::int64_t links = links_followed(space.step);
    if (space.step == Step::empty) {
      EXPECT_EQ(links, 0);
    } else {
      const std::int64_t cycle = space.one_cycle ? space.nodes.count() : space.nodes.per_group;
      EXPECT_NE(links % cycle, 0) << space.name;
    }
  }
}

/// A cached chain is in the cache when its timed steps begin; the others are never met again.
TEST(Spaces, AreWalkedThroughOnceBeforeTheyAreTimedOrNeverWhole) {
  for (const Space& space : spaces(l2_bytes)) {
    const std::int64_t cycle = space.one_cycle ? space.nodes.count() : space.nodes.per_group;
    const std::int64_t untimed = profiling::latency::timed_steps;
    EXPECT_TRUE(cycle <= untimed || cycle > 100 * untimed) << space.name;
  }
}

TEST(Spaces, KeepNodesApartAndInTheirMemory) {
  for (const Space& space : spaces(l2_bytes)) {
    if (space.step == Step::empty || space.nodes.count() > 1'000'000) continue;
    const auto links = space.links(space.next(1));
    ASSERT_EQ(links.size(), space.nodes.count());
    std::set<std::uint32_t> from, to;
    for (const auto& link : links) {
      from.insert(link.at);
      to.insert(link.to);
      EXPECT_EQ(link.at % profiling::latency::node_bytes(space.step), 0u);
      EXPECT_LE(link.at + profiling::latency::node_bytes(space.step), space.bytes());
    }
    EXPECT_EQ(from.size(), links.size()) << space.name;
    EXPECT_EQ(from, to) << space.name;
  }
}

TEST(Spaces, InOneLineStayInIt) {
  const auto all = spaces(l2_bytes);
  const Space& space = *std::ranges::find(all, "global_l2_one_line", &Space::name);
  for (const auto& link : space.links(space.next(1))) EXPECT_EQ(link.at / 128, link.to / 128);
  EXPECT_EQ(space.bytes(), 2u << 20);
}

TEST(Spaces, OfDramAreFarLargerThanTheCache) {
  for (const std::uint64_t l2 : {0ull, 4ull << 20, 60ull << 20, 126ull << 20, 400ull << 20}) {
    for (const Space& space : spaces(l2)) {
      if (!space.name.starts_with("global_dram")) continue;
      EXPECT_GE(space.bytes(), std::max<std::uint64_t>(1 << 30, 8 * l2)) << l2;
    }
  }
  for (const Space& space : spaces(std::uint64_t{1} << 40)) {
    if (space.step == Step::empty) continue;
    EXPECT_LT(space.offset(space.nodes.count() - 1), space.bytes()) << "32 bits hold an offset";
  }
}

}  // namespace
}  // namespace reprolab::latency
