#include "profiling/kernel_activity.hpp"

#include <algorithm>

namespace reprolab::profiling {
namespace {

class Summer {
 public:
  void add(const KernelActivity& kernel) {
    first_ns_ = sum_.kernels == 0 ? kernel.start_ns : std::min(first_ns_, kernel.start_ns);
    last_ns_ = std::max(last_ns_, kernel.end_ns);
    busy_ns_ += kernel.end_ns - kernel.start_ns;
    ++sum_.kernels;
  }

  ActivitySum result() const {
    ActivitySum sum = sum_;
    sum.busy_us = 1e-3 * static_cast<double>(busy_ns_);
    sum.span_us = 1e-3 * static_cast<double>(last_ns_ - first_ns_);
    return sum;
  }

 private:
  ActivitySum sum_;
  std::uint64_t first_ns_ = 0, last_ns_ = 0, busy_ns_ = 0;
};

}  // namespace

ActivitySum sum(const std::vector<KernelActivity>& kernels) {
  Summer summer;
  for (const KernelActivity& kernel : kernels) summer.add(kernel);
  return summer.result();
}

std::map<std::uint64_t, ActivitySum> sum_by_tag(const std::vector<KernelActivity>& kernels) {
  std::map<std::uint64_t, Summer> summers;
  for (const KernelActivity& kernel : kernels) {
    if (kernel.tag) summers[*kernel.tag].add(kernel);
  }
  std::map<std::uint64_t, ActivitySum> sums;
  for (const auto& [tag, summer] : summers) sums.emplace(tag, summer.result());
  return sums;
}

}  // namespace reprolab::profiling
