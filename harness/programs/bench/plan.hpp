// The plan of a bench run: problems, kernels, memory and time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/family.hpp"
#include "harness/measure.hpp"

namespace reprolab::bench {

/// The selection on the command line: patterns of names (selects() in selection.hpp), and data by
/// name. A family that has none of the named data is left out.
struct Selection {
  std::string family{}, kernel{}, problem{};
  std::vector<std::string> data{};  ///< Empty: each family's first.
  bool warm = false;                ///< All problems are made warm by kept_warm().
  bool small = false;               ///< Family::small() in place of all others.
};

/// One problem and the kernels that will run on it.
struct Group {
  std::size_t index = 0;  ///< Index among the groups of a run.
  const Family* family = nullptr;
  PlannedProblem planned;
  std::vector<VariantInfo> kernels;
};

/// If nothing is selected, throws UsageError with the known names. Problems may be made smaller so
/// that they fit in `free`.
std::vector<Group> select(const Selection& selection, const FreeMemory& free);

/// `--list`: one line for each kernel of the groups.
void print_kernels(const std::vector<Group>& groups);

/// The numbers of kernels and problems of each family, and the estimated time.
std::string describe_selection(const std::vector<Group>& groups, const MeasureOptions& options);

/// One line for each missing group of a family's kernels: "nf4: mojo: not built; make mojo". Not
/// shown when the user selected kernels.
std::string describe_absent(const std::vector<Group>& groups);

/// `--dry-run`: the plan, the estimated time, and the kernels that this GPU refuses with their
/// reasons.
void print_plan(const std::vector<Group>& groups, const MeasureOptions& options,
                const std::optional<profiling::Gpu>& gpu, const std::string& why_no_gpu);

/// The same for programs: {"why_none": "", "problems": [{"name": ..., "refused": {KERNEL: WHY}}]};
/// `why_none` says why nothing can run here.
void print_plan_as_json(const std::vector<Group>& groups, const std::optional<profiling::Gpu>& gpu,
                        const std::string& why_no_gpu);

}  // namespace reprolab::bench
