// How a kernel's launches went: what failed in them, what state they left, and whether their time
// is that of their work.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "harness/device_state.hpp"
#include "harness/errors.hpp"
#include "harness/workload.hpp"
#include "profiling/instrument.hpp"

namespace reprolab {

struct Verification {
  Outcome outcome = Outcome::not_verified;
  std::string reason{};
  /// Comparison with the reference, for a mismatch and for a declared deviation; equal for a kernel
  /// that does not deviate as declared.
  reference::Comparison found{};
  std::map<std::string, std::int64_t> findings{};  ///< As in Findings.

  /// Whether an output was judged and is not what it has to be, or could not be made.
  bool is_bad() const { return outcome != Outcome::not_verified && !may_be_timed(outcome); }
};

Verification failed(std::string reason);  ///< launch_failed

/// One sample of a row: the readings of the instrument, and the verdict on what exactly these
/// launches wrote, and how; not_verified if none of their outputs can be judged.
struct Sampled {
  profiling::Sample sample;
  Verification written;
};

/// Throws if a launch failed; run_or_fail() distinguishes that from a kernel that fails as it runs.
void require_launched(cudaError_t error);

/// Runs `launches`, which enqueue a kernel and wait for it; in every turn of a kernel, something
/// does. If they fail, returns launch_failed with the reason; if the harness fails, not_measured;
/// otherwise not_verified. Throws KernelCrashed if the device does not survive it, or is not left
/// in `state`: a new process finds it as it was.
Verification run_or_fail(const VariantInfo& variant, const DeviceState& state,
                         const std::function<void()>& launches);

/// Takes a sample, and takes it again, twice at most, if the GPU waited for the host in it or if
/// other streams went on after it. The last one is then launch_failed.
Sampled repeat_if_late(const std::function<Sampled()>& sample);

/// The verdict on a sample whose outputs were found to be as `written` says: what the instrument
/// recorded may speak against it, too.
Verification with_records(Verification written, const profiling::Sample& sample);

/// The message on work that runs outside of the stream that a launch is given.
inline constexpr const char* escapes =
    ": some of its work is outside the timed stream; a launch must enqueue all of it on the stream "
    "that it is given";

}  // namespace reprolab
