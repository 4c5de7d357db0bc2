// A family of kernels as the measuring programs see it: its kernels, its problems, its options.
// A family registers itself, so that no program lists them.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/harness/workload.hpp"

namespace reprolab {

/// A problem that can be prepared; cheap to hold, nothing is allocated yet.
struct PlannedProblem {
  ProblemFacts facts;
  std::uint64_t slot_device_bytes = 0;  ///< Device memory of one slot: inputs and output.
  /// Host memory of the inputs and expected outputs; 0 if the host holds neither.
  std::uint64_t host_bytes = 0;
  bool timed = true;  ///< If false, its outputs are only verified.
  bool warm = false;  ///< If true, it is launched in one slot again and again: kept_warm().
  /// Whether a kernel can run it on the current GPU.
  std::function<Support(const std::string& kernel)> supports;
  /// Makes the data from `seed`, computes the reference and fills `slots` slots.
  std::function<std::unique_ptr<Workload>(int slots, std::uint64_t seed)> prepare;
};

struct FreeMemory {
  std::uint64_t device_bytes = 0, host_bytes = 0;
};

class Family {
 public:
  virtual ~Family() = default;

  virtual std::string name() const = 0;
  /// Adds the options that select the family's problems; called before the command line is read.
  virtual void add_options(CLI::App& app) = 0;
  /// Called once after the command line is read. Throws UsageError.
  virtual void configure() = 0;
  /// Whether the command line selects problems of this family by the family's own options. If it
  /// does so for any family, only such families run, unless --family is given.
  virtual bool is_asked_for() const { return false; }
  virtual std::vector<VariantInfo> kernels() const = 0;
  /// One line for each group of kernels that could be here and is not: why, and what to do.
  virtual std::vector<std::string> absent() const { return {}; }
  /// Names of the data that its problems can be filled with; without --data, it is the first.
  virtual std::vector<std::string> data() const = 0;
  /// The selected problems, each with each of `data`. If the command line allows it, those that do
  /// not fit are made smaller.
  virtual std::vector<PlannedProblem> problems(const FreeMemory& free,
                                               const std::vector<std::string>& data) const = 0;
};

/// All families of this program, sorted by name.
std::vector<Family*> families();

/// Registers a family before main().
struct RegisterFamily {
  explicit RegisterFamily(Family& family);
};

/// Prints which kernels refuse a problem, each reason once: "  refused by NAME, NAME: REASON".
void print_refusals(const std::vector<VariantInfo>& kernels,
                    const std::function<Support(const std::string& kernel)>& supports);

}  // namespace reprolab
