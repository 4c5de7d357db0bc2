// How a kernel is run: what fails in it, and what it leaves behind.
#include <fmt/core.h>

#include "common/not_measured.hpp"
#include "harness/verifier.hpp"

namespace reprolab {
namespace {

std::string describe(cudaError_t error) {
  return fmt::format("{} ({})", cudaGetErrorString(error), cudaGetErrorName(error));
}

/// Thrown while enqueueing if the launch itself fails.
struct LaunchError : profiling::CudaError {
  explicit LaunchError(cudaError_t error) : CudaError(error, "launch: " + describe(error)) {}
};

Verification failed(std::string reason) { return {Outcome::launch_failed, std::move(reason), {}}; }

}  // namespace

void require_launched(cudaError_t error) {
  if (error != cudaSuccess) throw LaunchError(error);
}

Verification run_or_fail(const VariantInfo& variant, const DeviceState& state,
                         const std::function<void()>& launches) {
  Verification verdict;
  try {
    launches();
    const cudaError_t left = cudaGetLastError();
    if (left != cudaSuccess) verdict = failed("left an error behind: " + describe(left));
  } catch (const profiling::CudaError& error) {
    cudaGetLastError();  // or the next row would report it
    const bool in_launch = dynamic_cast<const LaunchError*>(&error) != nullptr;
    const std::string reason = in_launch ? error.what() : "kernel: " + describe(error.code);
    if (cudaDeviceSynchronize() != cudaSuccess) throw KernelCrashed(variant.name, reason);
    verdict = failed(reason);
  } catch (const NotMeasured& fault) {
    // What was launched before may have failed by itself.
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

}  // namespace reprolab
