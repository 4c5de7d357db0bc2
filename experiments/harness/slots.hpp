// How many copies of a problem's memory a measurement rotates over, and whether they fit.
#pragma once

#include <cstdint>
#include <string>

#include "experiments/harness/family.hpp"

namespace reprolab {

/// Slots that a problem needs so that rotating over them keeps inputs and outputs out of a cache of
/// `l2_bytes`: 3 x that beside the one in use, and three in any case (the copy ceiling goes from
/// one to another, and must not read what it has just written).
int cold_slots(std::uint64_t slot_bytes, std::uint64_t l2_bytes);

struct FreeMemory {
  std::uint64_t device_bytes = 0, host_bytes = 0;
};

/// What is free now, on the current device and the host. Throws where there is no device.
FreeMemory free_memory();

struct Slots {
  int count = 0;  ///< 0: the problem does not fit.
  std::string why_none{};
};

/// As many as `free` holds beside the verifier's two outputs, at most those of a cold run, and none
/// where not even three fit.
Slots slots_for(const PlannedProblem& planned, std::uint64_t l2_bytes, const FreeMemory& free);

}  // namespace reprolab
