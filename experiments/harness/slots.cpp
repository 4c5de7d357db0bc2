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
/// For the kernels' modules, libraries' workspaces and what allocations are rounded up by.
constexpr std::uint64_t reserve_bytes = std::uint64_t{256} << 20;

std::string does_not_fit(const char* memory, std::uint64_t needed, std::uint64_t free) {
  return fmt::format("needs {:.1f} GiB of {} memory, {:.1f} GiB are free; select a smaller problem",
                     gib(needed), memory, gib(free));
}

}  // namespace

int cold_slots(std::uint64_t slot_bytes, std::uint64_t l2_bytes) {
  const std::uint64_t bytes = std::max<std::uint64_t>(1, slot_bytes);
  const std::uint64_t wanted = 1 + (3 * l2_bytes + bytes - 1) / bytes;
  return static_cast<int>(std::clamp<std::uint64_t>(wanted, 3, most_slots));
}

std::uint64_t device_bytes(const PlannedProblem& planned, int slots) {
  return static_cast<std::uint64_t>(slots) * planned.slot_device_bytes +
         2 * planned.facts.output_bytes();
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

Slots slots_for(const PlannedProblem& planned, std::uint64_t l2_bytes, const FreeMemory& free,
                int fewest) {
  const std::uint64_t needed = device_bytes(planned, fewest);
  if (needed > free.device_bytes) return {0, does_not_fit("device", needed, free.device_bytes)};
  if (const std::uint64_t host = host_bytes(planned); host > free.host_bytes) {
    return {0, does_not_fit("host", host, free.host_bytes)};
  }
  const std::uint64_t fitting = (free.device_bytes - device_bytes(planned, 0)) /
                                std::max<std::uint64_t>(1, planned.slot_device_bytes);
  const int wanted = std::max(fewest, cold_slots(planned.slot_device_bytes, l2_bytes));
  return {static_cast<int>(std::min<std::uint64_t>(fitting, static_cast<std::uint64_t>(wanted))),
          ""};
}

}  // namespace reprolab
