// What a bench run will do: which problems, which kernels, how much memory and time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/harness/family.hpp"
#include "profiling/machine.hpp"

namespace reprolab::bench {

/// What the command line selects; regular expressions; `kernel` matches whole names, the others
/// are searched for, and empty ones match all.
struct Selection {
  std::string family, kernel, problem;
};

/// One problem and the kernels that will run on it.
struct Group {
  std::string family;
  PlannedProblem planned;
  std::vector<VariantInfo> kernels;
};

/// Throws UsageError when nothing is selected, naming what there is.
std::vector<Group> select(const Selection& selection);

/// `--list`: one line a kernel.
void print_kernels();

/// `--dry-run`: what will run, how long it will take about, and what this GPU cannot do.
void print_plan(const std::vector<Group>& groups, int samples, double batch_us,
                const std::optional<profiling::Gpu>& gpu, const std::string& why_no_gpu);

}  // namespace reprolab::bench
