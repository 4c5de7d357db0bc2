// The number of copies of a problem's memory that a measurement rotates over, and whether they fit.
#pragma once

#include <cstdint>
#include <string>

#include "harness/family.hpp"

namespace reprolab {

/// The fewest buffer sets for timing: the copy ceiling copies from buffer set to buffer set, and
/// must not read what it has just written.
inline constexpr int min_buffer_sets = 3;

/// The sizes that determine the number of buffer sets.
struct Rotation {
  std::uint64_t l2_bytes =
      0;  ///< Size of the cache that other buffer sets must evict a buffer set from.
  std::uint64_t batch_bytes = 0;  ///< Maximum bytes that a batch may read and write.
};

/// The buffer sets of a warm problem: the one that all launches use, and the one that the copy
/// ceiling copies to. Launches use the one that contains matrix 0 after inputs have been exchanged,
/// because declared outputs exist only for matrix 0.
inline constexpr int warm_buffer_sets = 2, warm_buffer_set = 1;

/// The same problem with a warm cache; its name and its records say so.
PlannedProblem kept_warm(PlannedProblem planned);

/// Number of buffer sets that a problem needs. A warm problem needs `warm_buffer_sets`. A cold one
/// needs enough that inputs and outputs have left the cache before they are used again (3 x its
/// size in addition to the buffer set in use), and that no launch of a batch writes an output
/// twice; `min_buffer_sets` to 4096, because a problem that would need more is so small that a
/// launch determines its time, cold or not.
int wanted_buffer_sets(const PlannedProblem& planned, const Rotation& rotation);

/// Maximum launches per batch without reusing an output; for a warm problem, the launches that move
/// the batch's bytes.
int max_launches(const PlannedProblem& planned, const Rotation& rotation, int buffer_sets);

/// Memory of a problem, including the verifier's: on the device the expected output of each
/// distinct matrix and the declared output of one deviating kernel, on the host an output that was
/// copied back and a declared output.
std::uint64_t device_bytes(const PlannedProblem& planned, int buffer_sets);
std::uint64_t host_bytes(const PlannedProblem& planned);

/// The free memory of the current device and the host (on the host within the limit of the
/// process's control group). Throws if there is no device.
FreeMemory free_memory();

struct BufferSets {
  int count = 0;      ///< 0: the problem does not fit.
  bool cold = false;  ///< Whether the buffer sets keep the problem out of the cache.
  std::string why_none{};
};

/// As many buffer sets as fit in `free`, at most `wanted`; none if fewer than `fewest` fit, or
/// fewer than `warm_buffer_sets` for a warm problem if that is less.
BufferSets buffer_sets_for(const PlannedProblem& planned, const Rotation& rotation,
                           const FreeMemory& free, int fewest = min_buffer_sets);

}  // namespace reprolab
