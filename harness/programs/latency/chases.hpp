// The rows of the program: the memory, the order and the instruction of each pointer chase; and the
// chases themselves.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "harness/programs/latency/cycle.hpp"
#include "harness/verification.hpp"
#include "profiling/event_timer.hpp"
#include "profiling/latency.hpp"
#include "profiling/machine.hpp"

namespace reprolab::latency {

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
