#include "harness/family.hpp"

#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "harness/errors.hpp"
#include "profiling/cuda_check.hpp"
#include "profiling/machine.hpp"

namespace reprolab {
namespace {

using nlohmann::ordered_json;

/// In the order of Contract::Kind.
constexpr const char* contract_names[] = {"bit_exact", "declared_deviation", "within_bound"};

std::vector<Family*>& registered() {
  static std::vector<Family*> all;
  return all;
}

ordered_json describe(const FamilyFacts& facts) {
  ordered_json parts = ordered_json::array();
  for (const auto& [name, rows, columns] : facts.parts) {
    parts.push_back({{"name", name}, {"rows", rows}, {"columns", columns}});
  }
  return {{"name", facts.name},
          {"size_option", facts.size_option},
          {"profiled_size", facts.profiled_size},
          {"parts", parts},
          {"kernels", ordered_json::array()}};
}

ordered_json describe(const VariantInfo& kernel) {
  return {{"name", kernel.name},
          {"language", kernel.language},
          {"counterpart", kernel.counterpart},
          {"lineage", kernel.lineage},
          {"source_file", kernel.source_file},
          {"contract", contract_names[static_cast<std::size_t>(kernel.contract.kind)]},
          {"contract_text", kernel.contract.text}};
}

constexpr int max_buffer_sets = 4096;
/// Reserved for the kernels' modules, libraries' workspaces and the rounding of allocations.
constexpr std::uint64_t reserve_bytes = std::uint64_t{256} << 20;

std::uint64_t times(std::uint64_t all, std::uint64_t one) {
  one = std::max<std::uint64_t>(1, one);
  return (all + one - 1) / one;
}

/// Bytes that a launch in a buffer set moves through the cache.
std::uint64_t cached_bytes(const PlannedProblem& planned) {
  return std::max<std::uint64_t>(1, planned.buffer_set_device_bytes - planned.seldom_read_bytes);
}

/// The launches that move the maximum bytes of a batch.
std::uint64_t launches_of_a_batch(const PlannedProblem& planned, const Rotation& rotation) {
  return times(rotation.batch_bytes, planned.facts.bytes_read + planned.facts.bytes_written);
}

std::string does_not_fit(const char* memory, std::uint64_t needed, std::uint64_t free) {
  return fmt::format("needs {:.1f} GiB of {} memory, {:.1f} GiB are free; select a smaller problem",
                     profiling::gib(needed), memory, profiling::gib(free));
}

}  // namespace

std::vector<Family*> families() {
  std::vector<Family*> all = registered();
  std::ranges::sort(all, {}, [](const Family* family) { return family->name(); });
  return all;
}

Family::Family(FamilyFacts facts) : facts_(std::move(facts)) { registered().push_back(this); }

ordered_json describe_families(const std::vector<Record>* records) {
  std::set<std::string> names, kernels;  // that have rows
  for (const Record& record : records ? *records : std::vector<Record>{}) {
    if (record.problem.contains("family")) names.insert(record.problem.at("family"));
    kernels.insert(record.variant.name);
  }
  ordered_json all = ordered_json::array();
  for (const Family* family : families()) {
    ordered_json described = describe(family->facts());
    for (const VariantInfo& kernel : family->kernels()) {
      if (!records || kernels.contains(kernel.name)) {
        described["kernels"].push_back(describe(kernel));
      }
    }
    const bool has_rows = names.contains(family->name()) || !described["kernels"].empty();
    if (!records || has_rows) all.push_back(std::move(described));
  }
  return all;
}

int print_description() {
  const ordered_json all = {{"schema", "reprolab-families/1"}, {"families", describe_families()}};
  fmt::print("{}\n", all.dump(1));
  return exit_verified;
}

void print_refusals(const std::vector<VariantInfo>& kernels,
                    const std::function<Support(const std::string& kernel)>& supports) {
  std::map<std::string, std::string> refusing;  // by reason
  for (const auto& kernel : kernels) {
    const Support support = supports(kernel.name);
    if (support.ok) continue;
    std::string& names = refusing[support.reason];
    names += (names.empty() ? "" : ", ") + kernel.name;
  }
  for (const auto& [reason, names] : refusing) fmt::print("  refused by {}: {}\n", names, reason);
}

PlannedProblem kept_warm(PlannedProblem planned) {
  planned.warm = true;
  planned.facts.name += "/warm";
  planned.facts.description["name"] = planned.facts.name;
  planned.facts.description["warm"] = true;
  return planned;
}

int wanted_buffer_sets(const PlannedProblem& planned, const Rotation& rotation) {
  if (planned.warm) return warm_buffer_sets;
  const std::uint64_t cold = 1 + times(3 * rotation.l2_bytes, cached_bytes(planned));
  const std::uint64_t once = launches_of_a_batch(planned, rotation);
  return static_cast<int>(
      std::clamp<std::uint64_t>(std::max(cold, once), min_buffer_sets, max_buffer_sets));
}

int max_launches(const PlannedProblem& planned, const Rotation& rotation, int buffer_sets) {
  if (!planned.warm) return buffer_sets;
  return static_cast<int>(
      std::clamp<std::uint64_t>(launches_of_a_batch(planned, rotation), 1, max_buffer_sets));
}

std::uint64_t device_bytes(const PlannedProblem& planned, int buffer_sets) {
  // If the host does not hold the output, no declared output is made either.
  const int outputs = std::min(buffer_sets, distinct_matrices) + (planned.host_bytes > 0 ? 1 : 0);
  const std::uint64_t shared = planned.shared_device_bytes ? planned.shared_device_bytes() : 0;
  return shared + static_cast<std::uint64_t>(buffer_sets) * planned.buffer_set_device_bytes +
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

BufferSets buffer_sets_for(const PlannedProblem& planned, const Rotation& rotation,
                           const FreeMemory& free, int fewest) {
  if (planned.warm) fewest = std::min(fewest, warm_buffer_sets);
  const std::uint64_t needed = device_bytes(planned, fewest);
  if (needed > free.device_bytes) {
    return {.why_none = does_not_fit("device", needed, free.device_bytes)};
  }
  if (const std::uint64_t host = host_bytes(planned); host > free.host_bytes) {
    return {.why_none = does_not_fit("host", host, free.host_bytes)};
  }
  const std::uint64_t buffer_set = std::max<std::uint64_t>(1, planned.buffer_set_device_bytes);
  const std::uint64_t fitting =
      static_cast<std::uint64_t>(fewest) + (free.device_bytes - needed) / buffer_set;
  const auto wanted =
      static_cast<std::uint64_t>(std::max(fewest, wanted_buffer_sets(planned, rotation)));
  const std::uint64_t count = std::min(fitting, wanted);
  const bool cold = !planned.warm && (count - 1) * cached_bytes(planned) >= 3 * rotation.l2_bytes;
  return {.count = static_cast<int>(count), .cold = cold};
}

}  // namespace reprolab
