// Where a result file's numbers come from: command, code, build, machine and clocks.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/family.hpp"
#include "profiling/clocks.hpp"
#include "profiling/instrument.hpp"

namespace reprolab {

/// The GPU and the free memory, as a separate process sees them: the process that asks calls
/// nothing of CUDA itself, so that it can start workers.
struct Machine {
  nlohmann::json gpu;  ///< `provenance.gpu`.
  std::string pci_bus_id, uuid;
  FreeMemory free;
};

/// If there is no usable GPU, returns nullopt, and `*why_not` gives the reason in one line.
std::optional<Machine> find_machine(std::string* why_not);

/// Throws UsageError when there is no usable GPU.
Machine require_machine();

/// What rows depend on, as pathspecs of git: the lines of records/row_sources.
std::vector<std::string> row_sources();

/// Observes a pass from construction on; describe() ends the observation.
class PassObserver {
 public:
  /// Commit of the sources at the start of the pass.
  struct Commit {
    std::string hash = "unknown";
    bool dirty = true;
  };

  /// `locked_mhz`: where the SM clock is locked.
  PassObserver(std::vector<std::string> argv, profiling::InstrumentKind instrument,
               std::uint64_t seed, const Machine& machine, std::optional<unsigned> locked_mhz);

  nlohmann::json describe();

 private:
  std::vector<std::string> argv_;
  profiling::InstrumentKind instrument_;
  std::uint64_t seed_;
  std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
  Commit commit_;
  nlohmann::json gpu_;
  std::optional<unsigned> locked_mhz_;
  profiling::ClockObserver clocks_;
};

}  // namespace reprolab
