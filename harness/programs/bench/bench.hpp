// bench: the plan of a run, and Google Benchmark as its front end.
#pragma once

#include <functional>
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

/// "21 samples per row, 1.0 ms each"
std::string describe_samples(const MeasureOptions& options);

/// `--dry-run`: the plan, and the kernels that this GPU refuses with their reasons.
void print_plan(const std::vector<Group>& groups, const MeasureOptions& options,
                const std::optional<profiling::Gpu>& gpu, const std::string& why_no_gpu);

/// The same for programs: {"why_none": "", "problems": [{"name": ..., "refused": {KERNEL: WHY}}]};
/// `why_none` says why nothing can run here.
void print_plan_as_json(const std::vector<Group>& groups, const std::optional<profiling::Gpu>& gpu,
                        const std::string& why_no_gpu);

/// Measures a problem's rows: those of its kernels and of the ceilings.
using MeasureGroup = std::function<std::vector<Record>(const Group& group)>;

/// Passes `words` to Google Benchmark. Throws UsageError for an unknown word and for flags that
/// conflict with our order of samples or with --dry-run.
void initialize_benchmark(const std::string& program, std::vector<std::string> words);

/// Runs the rows that Google Benchmark's filter selects, each as one run with the median of its
/// samples, and returns the records of their groups; a group is measured when its first row is run,
/// so that only one group holds memory at a time. `context` is printed above the table. Throws
/// UsageError if the filter selects nothing.
std::vector<Record> run_benchmarks(const std::vector<Group>& groups,
                                   const std::vector<VariantInfo>& ceilings,
                                   const std::string& context, const MeasureGroup& measure);

}  // namespace reprolab::bench
