// Start and end of every kernel of this process, from CUPTI's activity records: also of kernels
// that a peer's library launches by itself. Costs some microseconds a launch on the host and
// widens the gaps between kernels a little; the kernels' own times stay as they are.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "profiling/kernel_activity.hpp"

namespace reprolab::profiling {

/// One at a time in a process. All members throw std::runtime_error with what to do when CUPTI
/// refuses.
class ActivityRecorder {
 public:
  /// Loads CUPTI; throws when a profiler already holds this process, or when CUPTI is missing.
  ActivityRecorder();
  ~ActivityRecorder();
  ActivityRecorder(const ActivityRecorder&) = delete;
  ActivityRecorder& operator=(const ActivityRecorder&) = delete;

  /// From here on every kernel is recorded. Best before the process's first CUDA call.
  void start();

  /// The kernels recorded since start() or the last flush(), in the order of their starts. The
  /// device must have been synchronized. Throws when records were lost or a kernel has no times:
  /// a sum over part of a pass is worth nothing.
  std::vector<KernelActivity> flush();

  /// Ends the recording; what was not flushed is lost.
  void stop();

 private:
  friend class ScopedTag;
  struct State;
  std::unique_ptr<State> state_;
};

/// Every kernel that this thread launches within the scope carries `id` as its tag, those of
/// libraries and graphs too. The innermost of nested scopes wins. The recorder must outlive it.
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
