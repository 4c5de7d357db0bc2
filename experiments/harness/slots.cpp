#include "experiments/harness/slots.hpp"

#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <algorithm>
#include <fstream>

#include "profiling/cuda_check.hpp"
#include "profiling/machine.hpp"

namespace reprolab {
namespace {

constexpr int most_slots = 4096;
/// For the kernels' modules, libraries' workspaces and the rounding of allocations.
constexpr std::uint64_t reserve_bytes = std::uint64_t{256} << 20;

std::string does_not_fit(const char* memory, std::uint64_t needed, std::uint64_t free) {
  return fmt::format("needs {:.1f} GiB of {} memory, {:.1f} GiB are free; select a smaller problem",
                     gib(needed), memory, gib(free));
}

}  // namespace

int wanted_slots(const PlannedProblem& planned, const Rotation& rotation) {
  const auto times = [](std::uint64_t all, std::uint64_t one) {
    return (all + one - 1) / std::max<std::uint64_t>(1, one);
  };
  const std::uint64_t moved = planned.facts.bytes_read + planned.facts.bytes_written;
  const std::uint64_t slot = std::max<std::uint64_t>(1, planned.slot_device_bytes);
  const std::uint64_t cold = 1 + times(3 * rotation.l2_bytes, slot);
  const std::uint64_t once = times(rotation.batch_bytes, std::max<std::uint64_t>(1, moved));
  return static_cast<int>(
      std::clamp<std::uint64_t>(std::max(cold, once), fewest_slots, most_slots));
}

std::uint64_t device_bytes(const PlannedProblem& planned, int slots) {
  // If the host does not hold the output, no declared output is made either.
  const int outputs = std::min(slots, distinct_matrices) + (planned.host_bytes > 0 ? 1 : 0);
  return static_cast<std::uint64_t>(slots) * planned.slot_device_bytes +
         static_cast<std::uint64_t>(outputs) * planned.facts.output_bytes();
}

std::uint64_t host_bytes(const PlannedProblem& planned) {
  return planned.host_bytes == 0 ? 0 : planned.host_bytes + 2 * planned.facts.output_bytes();
}

FreeMemory free_memory() {
  std::size_t free_bytes = 0, total_bytes = 0;
  profiling::check(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free device memory");
  std::ifstream meminfo("/proc/meminfo");
  const std::uint64_t available = profiling::memory_available_bytes(meminfo);
  std::ifstream limit("/sys/fs/cgroup/memory.max"), used("/sys/fs/cgroup/memory.current"),
      stat("/sys/fs/cgroup/memory.stat");
  return {free_bytes > reserve_bytes ? free_bytes - reserve_bytes : 0,
          std::min(available, profiling::control_group_free_bytes(limit, used, stat))};
}

Slots slots_for(const PlannedProblem& planned, const Rotation& rotation, const FreeMemory& free,
                int fewest) {
  const std::uint64_t needed = device_bytes(planned, fewest);
  if (needed > free.device_bytes) {
    return {.why_none = does_not_fit("device", needed, free.device_bytes)};
  }
  if (const std::uint64_t host = host_bytes(planned); host > free.host_bytes) {
    return {.why_none = does_not_fit("host", host, free.host_bytes)};
  }
  const std::uint64_t slot = std::max<std::uint64_t>(1, planned.slot_device_bytes);
  const std::uint64_t fitting =
      static_cast<std::uint64_t>(fewest) + (free.device_bytes - needed) / slot;
  const auto wanted = static_cast<std::uint64_t>(std::max(fewest, wanted_slots(planned, rotation)));
  const std::uint64_t count = std::min(fitting, wanted);
  return {.count = static_cast<int>(count), .cold = (count - 1) * slot >= 3 * rotation.l2_bytes};
}

}  // namespace reprolab
