#include "profiling/kernel_activity.hpp"

#include <algorithm>

namespace reprolab::profiling {

ActivitySum sum(const std::vector<KernelActivity>& kernels) {
  if (kernels.empty()) return {};
  std::uint64_t first_ns = kernels.front().start_ns, last_ns = 0, busy_ns = 0;
  for (const KernelActivity& kernel : kernels) {
    first_ns = std::min(first_ns, kernel.start_ns);
    last_ns = std::max(last_ns, kernel.end_ns);
    busy_ns += kernel.end_ns - kernel.start_ns;
  }
  return {.kernels = kernels.size(),
          .busy_us = 1e-3 * static_cast<double>(busy_ns),
          .first_ns = first_ns,
          .last_ns = last_ns};
}

}  // namespace reprolab::profiling
