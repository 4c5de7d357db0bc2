#include "harness/verdict.hpp"

#include <fmt/core.h>

#include <utility>

#include "profiling/basics.hpp"
#include "profiling/cuda_check.hpp"

namespace reprolab {
namespace {

std::string describe(cudaError_t error) {
  return fmt::format("{} ({})", cudaGetErrorString(error), cudaGetErrorName(error));
}

/// Thrown while enqueueing if the launch itself fails.
struct LaunchError : profiling::CudaError {
  explicit LaunchError(cudaError_t error) : CudaError(error, "launch: " + describe(error)) {}
};

/// Maximum time that other streams may run after the stop event; the host needs some 10 us of it.
constexpr double max_lingering_us = 200;

/// Maximum excess of the host's time over the events' time; the host needs some 20 us of it.
constexpr double max_unseen_us = 300, max_unseen_of_batch = 0.05;

/// A sample may look late because the host was not scheduled for a while, or because another
/// process had the GPU (tests of exactness share one), but not this often in a row.
constexpr int max_attempts = 8;

/// Why the batch's time is not the time of its work; empty if it is.
std::string why_late(const profiling::BatchTime& batch) {
  if (!batch.host_ahead) {
    return "waits for the GPU when it is launched; a launch only enqueues its work";
  }
  if (batch.lingering_us > max_lingering_us) {
    return fmt::format("was still at work {:.1f} ms after the stop event{}",
                       1e-3 * batch.lingering_us, escapes);
  }
  if (batch.host_us > batch.us + max_unseen_us + max_unseen_of_batch * batch.us) {
    return fmt::format("took {:.0f} us between the events, and {:.0f} us on the host's clock",
                       batch.us, batch.host_us);
  }
  return "";
}

}  // namespace

Verification failed(std::string reason) { return {Outcome::launch_failed, std::move(reason), {}}; }

void require_launched(cudaError_t error) {
  if (error != cudaSuccess) throw LaunchError(error);
}

Verification run_or_fail(const VariantInfo& variant, const DeviceState& state,
                         const std::function<void()>& launches) {
  Verification verdict;
  try {
    launches();
    const cudaError_t left = cudaGetLastError();
    if (left != cudaSuccess) verdict = failed("left an error: " + describe(left));
  } catch (const profiling::CudaError& error) {
    cudaGetLastError();  // otherwise the next row would report it
    const bool in_launch = dynamic_cast<const LaunchError*>(&error) != nullptr;
    const std::string reason = in_launch ? error.what() : "kernel: " + describe(error.code);
    if (cudaDeviceSynchronize() != cudaSuccess) throw KernelCrashed(variant.name, reason);
    verdict = failed(reason);
  } catch (const NotMeasured& fault) {
    // An earlier launch may have failed on its own.
    if (const cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess) {
      throw KernelCrashed(variant.name, "kernel: " + describe(error));
    }
    verdict = {Outcome::not_measured, fault.what(), {}};
  }
  state.reset_persisting_lines();
  if (const std::string changes = state.changes(); !changes.empty()) {
    throw KernelCrashed(variant.name, changes);
  }
  return verdict;
}

Sampled repeat_if_late(const std::function<Sampled()>& sample) {
  Sampled sampled;
  for (int attempt = 0; attempt < max_attempts; ++attempt) {
    sampled = sample();
    if (!sampled.sample.held || sampled.written.is_bad()) return sampled;
    const std::string late = why_late(*sampled.sample.held);
    if (late.empty()) return sampled;
    sampled.written = failed(late);
  }
  return sampled;
}

Verification with_records(Verification written, const profiling::Sample& sample) {
  if (written.is_bad()) return written;
  if (sample.foreign > 0) {
    return failed(fmt::format(
        "{} kernels, copies or fills ran in between that no call of it launched; a launch must "
        "enqueue all of its work in the thread that calls it",
        sample.foreign));
  }
  if (!sample.lost.empty()) return {Outcome::not_measured, sample.lost, {}};
  return written;
}

}  // namespace reprolab
