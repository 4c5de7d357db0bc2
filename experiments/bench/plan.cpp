#include "experiments/bench/plan.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <thread>

#include "experiments/harness/errors.hpp"
#include "experiments/harness/measure.hpp"
#include "experiments/harness/selection.hpp"
#include "experiments/harness/slots.hpp"

namespace reprolab::bench {
namespace {

/// Data and reference take this long an element on one core (measured: 2 to 4 ns), and comparing an
/// output that was brought back about as long as bringing it.
constexpr double prepare_ns_an_element = 12.0;
constexpr double verify_ns_a_byte = 0.4;

double estimated_seconds(const Group& group, int samples, double batch_us) {
  const ProblemFacts& facts = group.planned.facts;
  const double cores = std::max(1u, std::thread::hardware_concurrency());
  const double prepare = prepare_ns_an_element * static_cast<double>(facts.elements) / cores;
  const double variants = static_cast<double>(group.kernels.size());
  const double verify = verify_ns_a_byte * static_cast<double>(facts.output_bytes()) * variants;
  const double timing =
      1e3 * samples * batch_us * (variants + static_cast<double>(ceiling_variants().size()));
  return 1e-9 * (prepare + verify + timing);
}

void refuse_duplicates(const std::vector<Group>& groups) {
  std::set<std::string> seen;
  for (const Group& group : groups) {
    if (!seen.insert(group.planned.facts.name).second) {
      throw UsageError(fmt::format("problem '{}' is asked for twice", group.planned.facts.name));
    }
  }
}

/// Those of a family's kernels that are among the selected ones.
std::vector<VariantInfo> in_common(const std::vector<VariantInfo>& family,
                                   const std::vector<VariantInfo>& selected) {
  std::vector<VariantInfo> common;
  std::ranges::copy_if(family, std::back_inserter(common), [&](const VariantInfo& kernel) {
    return std::ranges::find(selected, kernel.name, &VariantInfo::name) != selected.end();
  });
  return common;
}

}  // namespace

std::vector<Group> select(const Selection& selection) {
  const auto family_regex = to_regex("--family", selection.family);
  const auto problem_regex = to_regex("--problem", selection.problem);
  std::vector<Family*> selected;
  std::vector<VariantInfo> known;
  std::vector<std::string> family_names, problem_names;
  const bool some_asked_for =
      selection.family.empty() && std::ranges::any_of(families(), &Family::is_asked_for);
  for (Family* family : families()) {
    family_names.push_back(family->name());
    if (!std::regex_search(family->name(), family_regex)) continue;
    if (some_asked_for && !family->is_asked_for()) continue;
    selected.push_back(family);
    const auto kernels = family->kernels();
    known.insert(known.end(), kernels.begin(), kernels.end());
  }
  if (selected.empty()) nothing_matches("--family", selection.family, family_names);
  const auto kernels = select_kernels(selection.kernel, known);
  refuse_names_of_ceilings(kernels);
  std::vector<Group> groups;
  for (const Family* family : selected) {
    const auto own = in_common(family->kernels(), kernels);
    if (own.empty()) continue;
    for (auto& planned : family->problems()) {
      problem_names.push_back(planned.facts.name);
      if (!std::regex_search(planned.facts.name, problem_regex)) continue;
      groups.push_back({family->name(), std::move(planned), own});
    }
  }
  if (groups.empty()) nothing_matches("--problem", selection.problem, problem_names);
  refuse_duplicates(groups);
  return groups;
}

void print_kernels() {
  for (const Family* family : families()) {
    fmt::print("{}\n", family->name());
    for (const auto& kernel : family->kernels()) {
      fmt::print("  {:<24} {:<52} {}\n", kernel.name, kernel.lineage, kernel.source_file);
      if (!kernel.deviation.empty()) {
        fmt::print("  {:<24} declared deviation: {}\n", "", kernel.deviation);
      }
    }
  }
}

void print_plan(const std::vector<Group>& groups, int samples, double batch_us,
                const std::optional<profiling::Gpu>& gpu, const std::string& why_no_gpu) {
  fmt::print("{:<32} {:>8} {:>14} {:>12} {:>10}\n", "problem", "kernels", "device memory",
             "host memory", "about");
  double seconds = 0;
  for (const Group& group : groups) {
    const auto& planned = group.planned;
    const std::uint64_t l2_bytes = gpu ? gpu->l2_bytes : 0;
    const std::uint64_t needed =
        device_bytes(planned, cold_slots(planned.slot_device_bytes, l2_bytes));
    const double about = estimated_seconds(group, samples, batch_us);
    seconds += about;
    fmt::print("{:<32} {:>8} {:>10.2f} GiB {:>8.2f} GiB {:>8.1f} s\n", planned.facts.name,
               group.kernels.size(), gib(needed), gib(host_bytes(planned)), about);
    if (gpu && needed > gpu->memory_bytes) {
      fmt::print("  fits this GPU's {:.1f} GiB only with fewer copies, or is left out\n",
                 gib(gpu->memory_bytes));
    }
  }
  fmt::print("in all about {:.0f} s ({} samples a row, {:.1f} ms each)\n", seconds, samples,
             1e-3 * batch_us);
  if (gpu) {
    fmt::print("on {} (compute capability {})\n", gpu->name, gpu->compute_capability);
  } else {
    fmt::print("nothing of it can run here: {}\n", why_no_gpu);
  }
}

}  // namespace reprolab::bench
