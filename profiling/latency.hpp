// Latencies of memory in SM cycles: one thread walks a chain in which every loaded value is the
// next address, so that no step starts before the previous one has ended, and reads the SM's clock
// (clock64) before and after. latency.cu lists the instructions of a step.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "profiling/cuda_check.hpp"

namespace reprolab::profiling::latency {

enum class Step {
  empty,              ///< Nothing: only the loop and the clock remain.
  global_through_l1,  ///< ld.global, the load that plain C++ becomes.
  global_past_l1,     ///< ld.global.cg: bypasses L1.
  constant,           ///< ld.const, at an address that is known only at run time.
  shared,             ///< ld.shared.
  /// st.shared to one address after another. A store returns nothing that the next could wait for,
  /// so this is the interval between two stores of a thread, not a latency.
  shared_store,
  /// st.shared, then ld.shared of what was stored, which is the next address.
  shared_store_to_load
};

/// Timed steps of a walk. As many untimed steps precede them, which load data and page translations
/// into the caches.
inline constexpr std::int64_t timed_steps = 16384;
/// Nodes of a chain for the two steps that store. The thread keeps their addresses in registers, so
/// that it stores values without loading them.
inline constexpr std::uint32_t ring_nodes = 8;
/// Maximum bytes of a chain in shared or constant memory.
inline constexpr std::uint32_t max_on_chip_bytes = 2048;

/// A node and its successor, as byte offsets in the chain's memory: multiples of 8 in global memory
/// and of 4 elsewhere.
struct Link {
  std::uint32_t at = 0, to = 0;
};

/// The number of links that a walk follows; its end shows whether it loaded the right values.
std::int64_t links_followed(Step step);

struct Walked {
  std::uint64_t cycles = 0;  ///< Sum over the timed steps.
  std::uint32_t end = 0;     ///< Offset of the node at which the walk ended.
};

/// A chain in the kind of memory that `step` accesses.
class Chain {
 public:
  /// `bytes`: size of the chain's memory, which contains all links; a step that stores needs
  /// `ring_nodes` links. Throws as DeviceBuffer does. Constant memory contains only the chain made
  /// last.
  Chain(Step step, std::span<const Link> links, std::uint32_t bytes);

  /// Enqueues one walk from the node at offset `start`, by one thread.
  void enqueue(std::uint32_t start, cudaStream_t stream);

  /// The result of the last walk; the stream must have been synchronized since.
  Walked walked() const { return *walked_.data(); }

 private:
  Step step_;
  std::uint32_t bytes_;
  DeviceBuffer memory_;  ///< Global: addresses. Shared: offsets, with which a block fills its own.
  MappedArray<Walked> walked_{1};
};

}  // namespace reprolab::profiling::latency
