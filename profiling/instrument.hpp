// The instruments that a process can measure with; one call runs a row's launches and reads their
// metrics. Only one instrument per process: CUPTI admits one subscriber, and Nsight's tools and
// compute-sanitizer need a process without any CUPTI call.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiling/activity.hpp"
#include "profiling/event_timer.hpp"

namespace reprolab::profiling {

enum class InstrumentKind {
  none,      ///< Run and verify, measure nothing; for running under a profiler.
  events,    ///< A pair of CUDA events around each batch.
  activity,  ///< Start and end of every kernel, from CUPTI activity records.
  counters,  ///< Hardware counters, from CUPTI's range profiler; no times.
};

/// On the command line and in result files, in the order of the enumerators.
inline constexpr std::array<std::string_view, 4> instrument_names = {"none", "events", "activity",
                                                                     "counters"};

constexpr std::string_view name(InstrumentKind kind) {
  return instrument_names[static_cast<std::size_t>(kind)];
}

/// Runs one launch, and adds its time to the named metric, such as "kernel_time"; without a name,
/// it is the harness's own work and is excluded from timing.
using Call = std::function<void(std::string_view metric, const std::function<void()>& launch)>;

/// A Call that measures nothing.
inline void only_launch(std::string_view, const std::function<void()>& launch) { launch(); }

/// The launches of one sample.
struct Work {
  std::string name;  ///< The kernel's name, for errors.
  int calls = 1;     ///< Calls of the kernel; readings are divided by it if `per_call`.
  bool per_call = false;
  std::function<void(cudaStream_t, const Call&)> enqueue;
  /// Whether the stream is held until everything is enqueued; needs room in the stream's queue.
  bool held = false;
  std::function<void()> while_blocked{};           ///< See Batch.
  std::function<void(cudaStream_t)> after_stop{};  ///< See Batch.
};

/// One value of one metric.
struct Reading {
  std::string name, unit;
  double value = 0;
};

/// A metric that could not be read, and the reason.
struct Missing {
  std::string name, unit, why;
};

/// The result of running a Work once.
struct Sample {
  std::vector<Reading> readings{};
  std::vector<Missing> missing{};
  std::optional<BatchTime> held{};  ///< Set if the stream was held.
  /// All work of the calls that count as kernel_time, one list per call. Empty if the instrument
  /// does not see launches.
  std::vector<std::vector<KernelActivity>> launched{};
  /// From the first start to the last end of the calls' work; zero if the instrument does not see
  /// it.
  double span_us = 0;
  /// Work on the GPU that no call launched, such as that of another thread: within this span, or of
  /// the whole sample if a call launched nothing that was recorded.
  int foreign = 0;
  /// Why the instrument has not recorded all of the work, whose readings are then omitted; empty if
  /// it has.
  std::string lost{};
};

class Instrument {
 public:
  virtual ~Instrument() = default;
  virtual InstrumentKind kind() const = 0;

  /// Runs the work once on `stream`, waits for the whole GPU, and reads the metrics. Throws
  /// CudaError if the work fails, and NotMeasured if the instrument cannot be used.
  virtual Sample measure(const Work& work, cudaStream_t stream) = 0;

 protected:
  /// Runs the work, each launch through `call`.
  std::optional<BatchTime> run(const Work& work, const Call& call, cudaStream_t stream);

 private:
  std::unique_ptr<EventTimer> timer_;  ///< Made for the first held work, because it calls CUDA.
};

/// The sample of `work` from what CUPTI recorded; `metrics`: by tag, the name that the launch was
/// given.
Sample read_activity(const Work& work, const std::vector<std::string>& metrics,
                     std::vector<KernelActivity> recorded);

/// Best called before the process's first CUDA call (with `activity`, CUPTI sees every kernel from
/// then on). Throws if the instrument is not available. Counters are made by make_counters().
std::unique_ptr<Instrument> make_instrument(InstrumentKind kind);

}  // namespace reprolab::profiling
