#include "experiments/harness/slots.hpp"

#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <algorithm>
#include <fstream>

#include "profiling/cuda_check.hpp"
#include "profiling/machine.hpp"

namespace reprolab {
namespace {

constexpr int fewest = 3;

std::string does_not_fit(const char* memory, std::uint64_t needed, std::uint64_t free) {
  const auto gib = [](std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
  return fmt::format("needs {:.1f} GiB of {} memory, {:.1f} GiB are free", gib(needed), memory,
                     gib(free));
}

}  // namespace

int cold_slots(std::uint64_t slot_bytes, std::uint64_t l2_bytes) {
  const std::uint64_t wanted = 3 * l2_bytes;
  return static_cast<int>(
      std::max<std::uint64_t>(fewest, 1 + (wanted + slot_bytes - 1) / slot_bytes));
}

FreeMemory free_memory() {
  std::size_t free_bytes = 0, total_bytes = 0;
  profiling::check(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free device memory");
  std::ifstream meminfo("/proc/meminfo");
  return {free_bytes, profiling::memory_available_bytes(meminfo)};
}

Slots slots_for(const PlannedProblem& planned, std::uint64_t l2_bytes, const FreeMemory& free) {
  const std::uint64_t kept_by_verifier = 2 * planned.facts.output_bytes();
  const std::uint64_t needed = fewest * planned.slot_device_bytes + kept_by_verifier;
  if (needed > free.device_bytes) return {0, does_not_fit("device", needed, free.device_bytes)};
  if (planned.host_bytes > free.host_bytes) {
    return {0, does_not_fit("host", planned.host_bytes, free.host_bytes)};
  }
  const std::uint64_t fitting = (free.device_bytes - kept_by_verifier) /
                                std::max<std::uint64_t>(1, planned.slot_device_bytes);
  return {static_cast<int>(std::min<std::uint64_t>(
      fitting, static_cast<std::uint64_t>(cold_slots(planned.slot_device_bytes, l2_bytes))))};
}

}  // namespace reprolab
