// The verdict on launches, and on one sample of them: whether they failed, whether the device's
// state is unchanged, and whether the time is that of their work.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "harness/device_state.hpp"
#include "harness/errors.hpp"
#include "harness/facts.hpp"
#include "profiling/instrument.hpp"
#include "reference/compare.hpp"

namespace reprolab {

struct Verification {
  Outcome outcome = Outcome::not_verified;
  std::string reason{};
  /// Comparison with the reference, for a mismatch and for a declared deviation; equal for a kernel
  /// that does not deviate as declared.
  reference::Comparison comparison{};
  std::map<std::string, std::int64_t> findings{};  ///< As in Findings.

  /// Whether an output was judged and is wrong, or could not be made.
  bool is_bad() const { return outcome != Outcome::not_verified && !may_be_timed(outcome); }
};

Verification failed(std::string reason);  ///< launch_failed

/// One sample of a row: the readings of the instrument, and the verdict on these launches and their
/// outputs; not_verified if none of the outputs can be judged.
struct Sampled {
  profiling::Sample sample;
  Verification written;
};

/// Throws if a launch failed; run_or_fail() distinguishes this from a kernel that fails while it
/// runs.
void require_launched(cudaError_t error);

/// Runs `launches`, which enqueue a kernel and wait for it. If they fail, returns launch_failed
/// with the reason; if the harness fails, not_measured; otherwise not_verified. Throws
/// KernelCrashed if the device becomes unusable, or its state differs from `state`: a new process
/// starts with the original state.
Verification run_or_fail(const VariantInfo& variant, const DeviceState& state,
                         const std::function<void()>& launches);

/// Takes a sample, and repeats it up to seven times if the GPU waited for the host during it, or if
/// other streams were still running after it. If the last one is also late, it is launch_failed.
Sampled repeat_if_late(const std::function<Sampled()>& sample);

/// The verdict on a sample: `written`, the verdict on its outputs, unless the instrument's records
/// contradict it.
Verification with_records(Verification written, const profiling::Sample& sample);

/// The message about work outside of the stream that a launch is given.
inline constexpr const char* escapes =
    ": some of its work is outside the timed stream; a launch must enqueue all of it on the stream "
    "that it is given";

}  // namespace reprolab
