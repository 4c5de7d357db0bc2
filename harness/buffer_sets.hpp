// How many copies of a problem's memory a measurement rotates over, and whether they fit.
#pragma once

#include <cstdint>
#include <string>

#include "harness/family.hpp"

namespace reprolab {

/// The fewest buffer sets for timing: the copy ceiling copies from buffer set to buffer set, and
/// must not read what it has just written.
inline constexpr int min_buffer_sets = 3;

/// The sizes that decide how many buffer sets a measurement rotates over.
struct Rotation {
  std::uint64_t l2_bytes = 0;  ///< Size of the cache that buffer sets must keep each other out of.
  std::uint64_t batch_bytes = 0;  ///< Most bytes that a batch may read and write.
};

/// The buffer sets of a warm problem: the one that is launched in again and again, and the one that
/// the copy ceiling copies to. The first is that which holds matrix 0 when inputs have been
/// exchanged, as declared outputs are made for that matrix alone.
inline constexpr int warm_buffer_sets = 2, warm_buffer_set = 1;

/// The same problem with what fits into the cache in it; its name and its records say so.
PlannedProblem kept_warm(PlannedProblem planned);

/// Number of buffer sets that a problem needs. A warm one, `warm_buffer_sets`. A cold one: enough
/// that inputs and outputs have left the cache when they come again (3 x its size in addition to
/// the buffer set in use), and that no launch of a batch writes to an output that the batch has
/// already written; `min_buffer_sets` to 4096: a problem that would need more is so small that its
/// time is that of a launch, cold or not.
int wanted_buffer_sets(const PlannedProblem& planned, const Rotation& rotation);

/// Maximum launches per batch without reusing an output; of a warm problem, as many as move the
/// batch's bytes.
int max_launches(const PlannedProblem& planned, const Rotation& rotation, int buffer_sets);

/// Memory of a problem, including the verifier's outputs. On the device: the expected output of
/// each distinct matrix, and the declared output of one deviating kernel; on the host: an output
/// that was copied back, and one that a kernel declares.
std::uint64_t device_bytes(const PlannedProblem& planned, int buffer_sets);
std::uint64_t host_bytes(const PlannedProblem& planned);

/// The memory that is free now on the current device and the host (on the host, only what the
/// process's control group allows). Throws if there is no device.
FreeMemory free_memory();

struct BufferSets {
  int count = 0;      ///< 0: the problem does not fit.
  bool cold = false;  ///< Whether the buffer sets keep the problem out of the cache.
  std::string why_none{};
};

/// As many buffer sets as fit in `free`, at most those wanted, and none if not even `fewest` fit,
/// or `warm_buffer_sets` of a warm problem if those are fewer.
BufferSets buffer_sets_for(const PlannedProblem& planned, const Rotation& rotation,
                           const FreeMemory& free, int fewest = min_buffer_sets);

}  // namespace reprolab
