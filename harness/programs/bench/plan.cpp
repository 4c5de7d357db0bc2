#include "harness/programs/bench/bench.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "harness/errors.hpp"
#include "harness/family.hpp"
#include "harness/pass.hpp"
#include "harness/selection.hpp"

namespace reprolab::bench {
namespace {

/// The data for a family's problems; none if it has none of the requested data.
std::vector<std::string> data_of(const Family& family, const std::vector<std::string>& requested) {
  const auto known = family.data();
  if (requested.empty()) return {known.front()};
  std::vector<std::string> selected;
  std::ranges::copy_if(requested, std::back_inserter(selected), [&](const std::string& name) {
    return std::ranges::find(known, name) != known.end();
  });
  return selected;
}

/// The families that `selection` names and that have some of its data.
std::vector<Family*> select_families(const Selection& selection) {
  std::vector<Family*> selected;
  std::vector<std::string> names, data;
  const bool some_selected =
      selection.family.empty() && std::ranges::any_of(families(), &Family::is_selected);
  for (Family* family : families()) {
    names.push_back(family->name());
    if (!selects(selection.family, family->name())) continue;
    if (some_selected && !family->is_selected()) continue;
    selected.push_back(family);
    std::ranges::copy(family->data(), std::back_inserter(data));
  }
  if (selected.empty()) nothing_matches("--family", selection.family, names);
  for (const auto& name : selection.data) {
    if (std::ranges::find(data, name) == data.end()) nothing_matches("--data", name, data);
  }
  std::erase_if(selected, [&](Family* family) { return data_of(*family, selection.data).empty(); });
  return selected;
}

}  // namespace

std::vector<Group> select(const Selection& selection, const FreeMemory& free) {
  const auto selected = select_families(selection);
  std::vector<VariantInfo> known;
  std::vector<std::string> absent, problem_names;
  for (const Family* family : selected) {
    std::ranges::copy(family->kernels(), std::back_inserter(known));
    for (const auto& line : family->absent()) {
      if (std::ranges::find(absent, line) == absent.end()) absent.push_back(line);
    }
  }
  refuse_names_of_ceilings(select_kernels(selection.kernel, known, absent));
  std::vector<Group> groups;
  std::set<std::string> names;
  for (const Family* family : selected) {
    auto own = family->kernels();
    std::erase_if(own, [&](const auto& kernel) { return !selects(selection.kernel, kernel.name); });
    if (own.empty()) continue;
    for (auto& planned : selection.small
                             ? family->small()
                             : family->problems(free, data_of(*family, selection.data))) {
      if (selection.warm) planned = kept_warm(std::move(planned));
      problem_names.push_back(planned.facts.name);
      if (!selects(selection.problem, planned.facts.name)) continue;
      if (!names.insert(planned.facts.name).second) {
        throw UsageError(fmt::format("problem '{}' is selected twice", planned.facts.name));
      }
      groups.push_back({groups.size(), family, std::move(planned), own});
    }
  }
  if (groups.empty()) nothing_matches("--problem", selection.problem, problem_names);
  return groups;
}

void print_kernels(const std::vector<Group>& groups) {
  std::set<const Family*> printed;
  for (const Group& group : groups) {
    if (!printed.insert(group.family).second) continue;
    fmt::print("{}\n", group.family->name());
    for (const auto& kernel : group.kernels) {
      fmt::print("  {:<24} {:<52} {}\n", kernel.name, kernel.lineage, kernel.source_file);
      if (kernel.contract.kind == Contract::Kind::bit_exact) continue;
      fmt::print("  {:<24} {}: {}\n", "",
                 kernel.contract.deviates() ? "declared deviation" : "within a bound",
                 kernel.contract.text);
    }
    for (const auto& line : group.family->absent()) fmt::print("  {}\n", line);
  }
}

std::string describe_samples(const MeasureOptions& options) {
  const std::string each =
      options.counted ? "one call" : fmt::format("{:.1f} ms", 1e-3 * options.batch_us);
  return fmt::format("{} samples per row, {} each", options.samples, each);
}

void print_plan(const std::vector<Group>& groups, const MeasureOptions& options,
                const std::optional<profiling::Gpu>& gpu, const std::string& why_no_gpu) {
  fmt::print("{:<32} {:>8} {:>14} {:>12}\n", "problem", "kernels", "device memory", "host memory");
  for (const Group& group : groups) {
    const auto& planned = group.planned;
    const Rotation rotation = gpu ? rotation_for(*gpu, options) : Rotation{};
    const int buffer_sets = planned.timed ? wanted_buffer_sets(planned, rotation) : 1;
    const std::uint64_t needed = device_bytes(planned, buffer_sets);
    fmt::print("{:<32} {:>8} {:>10.2f} GiB {:>8.2f} GiB\n", planned.facts.name,
               group.kernels.size(), profiling::gib(needed), profiling::gib(host_bytes(planned)));
    if (!gpu) continue;
    if (needed > gpu->memory_bytes) {
      fmt::print("  fits this GPU's {:.1f} GiB only with fewer copies, or is left out\n",
                 profiling::gib(gpu->memory_bytes));
    }
    print_refusals(group.kernels, planned.supports);
  }
  fmt::print("{}\n{}\n", describe_samples(options), dry_run_place(gpu, why_no_gpu));
}

void print_plan_as_json(const std::vector<Group>& groups, const std::optional<profiling::Gpu>& gpu,
                        const std::string& why_no_gpu) {
  nlohmann::ordered_json plan = {{"why_none", why_no_gpu},
                                 {"problems", nlohmann::ordered_json::array()}};
  for (const Group& group : groups) {
    nlohmann::ordered_json refused = nlohmann::ordered_json::object();
    for (const auto& kernel : group.kernels) {
      const Support support = gpu ? group.planned.supports(kernel.name) : Support::yes();
      if (!support.ok) refused[kernel.name] = support.reason;
    }
    plan["problems"].push_back({{"name", group.planned.facts.name}, {"refused", refused}});
  }
  fmt::print("{}\n", plan.dump(1));
}

}  // namespace reprolab::bench
