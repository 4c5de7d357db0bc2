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
  /// Host memory of the input and the expected output; 0 where the host holds neither.
  std::uint64_t host_bytes = 0;
  /// Makes the data from `seed`, computes the reference and fills `slots` slots.
  std::function<std::unique_ptr<Workload>(int slots, std::uint64_t seed)> prepare;
};

class Family {
 public:
  virtual ~Family() = default;

  virtual std::string name() const = 0;
  /// Adds the options that select the family's problems; called before the command line is read.
  virtual void add_options(CLI::App& app) = 0;
  /// Called once after it is read. Throws UsageError.
  virtual void configure() = 0;
  /// Whether the command line asked for problems of this family by its own options: then only such
  /// families are meant, unless --family says otherwise.
  virtual bool is_asked_for() const { return false; }
  virtual std::vector<VariantInfo> kernels() const = 0;
  virtual std::vector<PlannedProblem> problems() const = 0;
};

/// All families of this program, by name.
std::vector<Family*> families();

/// Registers a family before main().
struct RegisterFamily {
  explicit RegisterFamily(Family& family);
};

}  // namespace reprolab
