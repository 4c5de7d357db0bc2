// How many copies of a problem's memory a measurement rotates over, and whether they fit.
#pragma once

#include <cstdint>
#include <string>

#include "experiments/harness/family.hpp"

namespace reprolab {

/// Slots that a problem needs so that rotating over them keeps inputs and outputs out of a cache of
/// `l2_bytes`: 3 x that beside the one in use, and three in any case (the copy ceiling goes from
/// one to another, and must not read what it has just written). At most 4096: a problem that would
/// take more is so small that its time is that of a launch, cold or not.
int cold_slots(std::uint64_t slot_bytes, std::uint64_t l2_bytes);

/// Device memory of a problem with so many slots, beside the verifier's two outputs.
std::uint64_t device_bytes(const PlannedProblem& planned, int slots);

/// Host memory of a problem with the verifier's two copies: an output brought back, and one that a
/// kernel declares.
std::uint64_t host_bytes(const PlannedProblem& planned);

struct FreeMemory {
  std::uint64_t device_bytes = 0, host_bytes = 0;
};

/// What is free now, on the current device and the host (of the latter without what the process's
/// control group forbids). Throws where there is no device.
FreeMemory free_memory();

struct Slots {
  int count = 0;  ///< 0: the problem does not fit.
  std::string why_none{};
};

/// As many as `free` holds, at most those of a cold run, and none where not even `fewest` fit.
Slots slots_for(const PlannedProblem& planned, std::uint64_t l2_bytes, const FreeMemory& free,
                int fewest = 3);

/// For people.
constexpr double gib(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

}  // namespace reprolab
