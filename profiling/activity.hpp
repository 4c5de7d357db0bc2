// Start and end times of every kernel, copy and fill of this process, from CUPTI's activity
// records, including those that a peer's library launches by itself. Recording costs some
// microseconds per launch on the host and slightly widens the gaps between kernels; the kernels'
// own times do not change.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "profiling/kernel_activity.hpp"

namespace reprolab::profiling {

/// Records as long as it lives; only one may exist in a process at a time. If CUPTI refuses a call,
/// all members throw CuptiError that says what to do.
class ActivityRecorder {
 public:
  /// Best called before the process's first CUDA call. Throws std::runtime_error when a profiler
  /// already holds this process, or when CUPTI is missing.
  ActivityRecorder();
  /// Records that were not flushed are lost.
  ~ActivityRecorder();
  ActivityRecorder(const ActivityRecorder&) = delete;
  ActivityRecorder& operator=(const ActivityRecorder&) = delete;

  /// What was recorded since the last flush() or discard(), in the order of their starts. The
  /// device must have been synchronized. Throws NotMeasured if records were lost or a kernel has no
  /// times, because a sum over part of a pass is worthless.
  std::vector<KernelActivity> flush();

  /// Forgets what was recorded so far; what was lost of that does not matter.
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
