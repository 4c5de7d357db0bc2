// Start and end times of every kernel, copy and fill of this process, from CUPTI's activity
// records, including those that a peer's library launches by itself. Recording costs some
// microseconds per launch on the host and slightly widens the gaps between kernels; the kernels'
// own times do not change.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprolab::profiling {

/// One execution of one kernel, copy or fill, as CUPTI's activity records describe it.
struct KernelActivity {
  std::string name{};  ///< Demangled; "copy" or "fill" if it is not a kernel.
  bool is_kernel = true;
  std::uint64_t start_ns = 0;  ///< All records of a process share one clock.
  std::uint64_t end_ns = 0;
  /// Id of the API call that launched it; a graph's kernels share one.
  std::uint32_t correlation_id = 0;
  std::optional<std::uint64_t> tag{};  ///< Tag of the innermost ScopedTag around the launch.
  std::array<std::int32_t, 3> grid{};
  std::array<std::int32_t, 3> block{};
  std::uint32_t registers_per_thread = 0;
  std::int32_t static_shared_bytes = 0;
  std::int32_t dynamic_shared_bytes = 0;
  /// Resident blocks per multiprocessor; none if unknown.
  std::optional<int> blocks_per_multiprocessor{};
};

/// Totals over kernels that belong together.
struct ActivitySum {
  double busy_us = 0;  ///< Sum of the durations; kernels that overlap count twice.
  std::uint64_t first_ns = 0, last_ns = 0;  ///< First start and last end.

  double span_us() const { return 1e-3 * static_cast<double>(last_ns - first_ns); }
};

ActivitySum sum(const std::vector<KernelActivity>& kernels);

/// Resident blocks per multiprocessor for a launch's resources, from the toolkit's occupancy
/// calculator (cuda_occupancy.h) for one barrier per block; none if it does not support the device.
std::optional<int> blocks_per_multiprocessor(const KernelActivity& kernel,
                                             const cudaDeviceProp& device);

/// Records during its lifetime; only one may exist in a process at a time. If CUPTI refuses a call,
/// all members throw CuptiError with the remedy.
class ActivityRecorder {
 public:
  /// Best called before the process's first CUDA call. Throws std::runtime_error when a profiler
  /// already holds this process, or when CUPTI is missing.
  ActivityRecorder();
  /// Records that were not flushed are lost.
  ~ActivityRecorder();

  /// Activities recorded since the last flush() or discard(), in the order of their starts. The
  /// device must have been synchronized. Throws NotMeasured if records were lost or a kernel has no
  /// times, because a sum over part of a pass is worthless.
  std::vector<KernelActivity> flush();

  /// Discards the records so far; lost ones among them do not count.
  void discard();

 private:
  friend class ScopedTag;
  struct State;
  std::unique_ptr<State> state_;
};

/// Tags every kernel that this thread launches within the scope with `id`, including launches by
/// libraries and graphs. The innermost of nested scopes wins. The recorder must outlive the tag.
class ScopedTag {
 public:
  ScopedTag(ActivityRecorder& recorder, std::uint64_t id);
  ~ScopedTag();
  ScopedTag(const ScopedTag&) = delete;
  ScopedTag& operator=(const ScopedTag&) = delete;

 private:
  ActivityRecorder& recorder_;
};

}  // namespace reprolab::profiling
