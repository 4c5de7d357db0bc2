// The build without CUDA: no kernels.
#include "programs/verify/kernel_checks.hpp"

namespace reprolab::verify {

KernelChecks find_kernels(const std::string& pattern, const std::vector<std::string>& peers) {
  if (!pattern.empty() || !peers.empty()) {
    throw UsageError(
        "--kernel and --peer need kernels, and this program was built without CUDA; "
        "build it with the preset gpu");
  }
  return {.unavailable = "built without CUDA"};
}

}  // namespace reprolab::verify
