// The rows of the program: the memory, the order and the instruction of each pointer chase; and the
// chases themselves.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/sampling.hpp"
#include "profiling/event_timer.hpp"
#include "profiling/latency.hpp"
#include "profiling/machine.hpp"

namespace reprolab::latency {

/// The order in which a chase visits a chain's nodes: for each node its successor.
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

using profiling::latency::Step;

inline constexpr const char* latency_metric = "latency";  ///< Cycles per step.

struct Space {
  std::string name;  ///< The record's kernel.
  std::string what;  ///< Describes a sample, in one line.
  Step step = Step::empty;
  Nodes nodes{};
  std::uint32_t spacing_bytes = 0;  ///< From a node to the next one of its group.
  std::uint32_t group_bytes = 0;    ///< From a group to the next.
  /// Whether one cycle goes through all groups. If not, a chase stays in its first group, and each
  /// sample starts in another.
  bool one_cycle = true;

  std::uint32_t bytes() const { return nodes.groups * group_bytes; }
  std::uint32_t offset(std::uint32_t node) const {
    return node / nodes.per_group * group_bytes + node % nodes.per_group * spacing_bytes;
  }
  Next next(std::uint64_t seed) const { return make_cycles(nodes, one_cycle, seed); }
  std::vector<profiling::latency::Link> links(const Next& next) const;
  /// "127x128B": nodes and their spacing, with the number of groups in front if there are several.
  std::string chain() const;
  ProblemFacts facts() const;
};

/// All spaces. Chains in DRAM are so long that an L2 cache of `l2_bytes` holds almost none of their
/// nodes.
std::vector<Space> spaces(std::uint64_t l2_bytes);

class Chases {
 public:
  Chases(const profiling::Gpu& gpu, std::uint64_t seed, std::string experiment);

  /// Makes the chain of a space, which must outlive this object, and verifies one chase.
  /// "unsupported" if its memory is not free.
  Verification verify(const Space& space, const VariantInfo& variant,
                      profiling::Instrument& instrument);
  /// Reads more from other memory than L2 holds, then runs one chase.
  Sampled sample(const VariantInfo& variant, profiling::Instrument& instrument, bool held = true);
  std::optional<double> sm_mhz() { return probe_.mhz(stream_.get()); }

 private:
  /// A chain on the device, and the nodes of its chases.
  struct Chase {
    Chase(const Space& space, std::uint64_t seed);

    const Space& space;
    Next next;
    profiling::latency::Chain chain;
    std::mt19937_64 random;
    std::uint32_t start = 0, end = 0;  ///< Nodes of the last chase, by the host's count.
  };

  static void enqueue(Chase& chase, cudaStream_t stream);
  static Verification judge(const Chase& chase);

  std::uint64_t seed_;
  std::string experiment_;
  profiling::Stream stream_;
  DeviceState state_{stream_.get()};
  profiling::SmClockProbe probe_;
  profiling::DeviceBuffer other_memory_;
  std::map<std::string, std::unique_ptr<Chase>> chases_;  ///< By row.
};

}  // namespace reprolab::latency
