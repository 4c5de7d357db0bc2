// The rows of the program: which memory is walked through, in which order, by which instruction.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "profiling/latency.hpp"
#include "programs/latency/cycle.hpp"

namespace reprolab::latency {

using profiling::latency::Step;

struct Space {
  std::string name;  ///< The record's kernel.
  std::string what;  ///< What a sample is of, in one line.
  Step step = Step::empty;
  Nodes nodes{};
  std::uint32_t spacing_bytes = 0;  ///< From a node to the next one of its group.
  std::uint32_t group_bytes = 0;    ///< From a group to the next.
  /// Whether one cycle goes through all groups. If not, a walk stays in the group it begins in, and
  /// each sample begins in another.
  bool one_cycle = true;

  std::uint32_t bytes() const { return nodes.groups * group_bytes; }
  std::uint32_t offset(std::uint32_t node) const {
    return node / nodes.per_group * group_bytes + node % nodes.per_group * spacing_bytes;
  }
  Next next(std::uint64_t seed) const;
  std::vector<profiling::latency::Link> links(const Next& next) const;
  /// "127x128B": nodes and their spacing, with the number of groups in front if there are several.
  std::string chain() const;
  /// The record's "problem".
  nlohmann::json describe() const;
};

/// Every space; the chains in DRAM are so long that L2, of `l2_bytes`, holds next to nothing of
/// them.
std::vector<Space> spaces(std::uint64_t l2_bytes);

}  // namespace reprolab::latency
