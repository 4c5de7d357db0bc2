// Where a result file's numbers come from: command, code, build, machine and clocks.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "profiling/clocks.hpp"
#include "profiling/instrument.hpp"
#include "profiling/machine.hpp"

namespace reprolab {

/// Watches a pass from construction on; describe() ends the watch.
class PassObserver {
 public:
  /// Of the sources, as they are when the pass begins.
  struct Commit {
    std::string hash = "unknown";
    bool dirty = true;
  };

  /// Throws UsageError when there is no usable GPU.
  PassObserver(std::vector<std::string> argv, profiling::Instrument instrument, std::uint64_t seed);

  const profiling::Gpu& gpu() const { return gpu_; }
  nlohmann::json describe();

 private:
  std::vector<std::string> argv_;
  profiling::Instrument instrument_;
  std::uint64_t seed_;
  std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
  Commit commit_;
  profiling::Gpu gpu_;
  std::optional<profiling::ClockObserver> clocks_;
};

/// The command line as given.
std::vector<std::string> to_strings(int argc, char** argv);

}  // namespace reprolab
