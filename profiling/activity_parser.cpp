#include "profiling/activity_parser.hpp"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

#include "common/not_measured.hpp"

namespace reprolab::profiling {
namespace {

// CUPTI's newer records (of kernels: 10 in CUDA 13.0, 11 in 13.2) begin with these layouts and
// append members that are not used here. So these oldest layouts, of CUDA 12.0, read the records of
// any loaded library, whether it is newer or older than the headers of this build.
using KernelRecord = CUpti_ActivityKernel9;
using CopyRecord = CUpti_ActivityMemcpy5;
using FillRecord = CUpti_ActivityMemset4;

/// What a kernel's record, a copy's and a fill's have in common.
template <class Record>
KernelActivity start_activity(const Record& record) {
  KernelActivity activity;
  activity.start_ns = record.start;
  activity.end_ns = record.end;
  activity.correlation_id = record.correlationId;
  return activity;
}

template <class Record>
KernelActivity no_kernel(const CUpti_Activity& record, const char* name) {
  KernelActivity activity = start_activity(reinterpret_cast<const Record&>(record));
  activity.name = name;
  activity.is_kernel = false;
  return activity;
}

}  // namespace

void ActivityParser::add(const CUpti_Activity& record) {
  if (record.kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) {
    const auto& tag = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(record);
    if (tag.externalKind == tag_kind) tags_[tag.correlationId] = tag.externalId;
    return;
  }
  if (record.kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    kernels_.push_back(no_kernel<CopyRecord>(record, "copy"));
    return;
  }
  if (record.kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    kernels_.push_back(no_kernel<FillRecord>(record, "fill"));
    return;
  }
  if (record.kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) return;
  const auto& kernel = reinterpret_cast<const KernelRecord&>(record);
  KernelActivity activity = start_activity(kernel);
  activity.name = demangled(kernel.name);
  activity.grid = {kernel.gridX, kernel.gridY, kernel.gridZ};
  activity.block = {kernel.blockX, kernel.blockY, kernel.blockZ};
  activity.registers_per_thread = kernel.registersPerThread;
  activity.static_shared_bytes = kernel.staticSharedMemory;
  activity.dynamic_shared_bytes = kernel.dynamicSharedMemory;
  kernels_.push_back(std::move(activity));
}

void ActivityParser::clear() {
  kernels_.clear();
  tags_.clear();
}

std::vector<KernelActivity> ActivityParser::take() {
  // A tag's record may come before or after its kernel's, in the same buffer or in another.
  std::vector<KernelActivity> kernels = std::exchange(kernels_, {});
  const auto tags = std::exchange(tags_, {});
  std::size_t untimed = 0;
  for (KernelActivity& kernel : kernels) {
    untimed += kernel.start_ns == 0 || kernel.end_ns < kernel.start_ns;
    if (const auto tag = tags.find(kernel.correlation_id); tag != tags.end()) {
      kernel.tag = tag->second;
    }
  }
  if (untimed > 0) {
    throw NotMeasured(fmt::format(
        "CUPTI gave no times for {} of {} kernels: they had not finished, or its device memory for "
        "times ran out. Synchronize the device before the flush, or flush more often.",
        untimed, kernels.size()));
  }
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
  return kernels;
}

std::string ActivityParser::demangled(const char* name) {
  if (!name) return "unknown";
  const auto [known, is_new] = names_.try_emplace(name, name);
  if (is_new) {
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> text(
        abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
    if (text) known->second = text.get();
  }
  return known->second;
}

}  // namespace reprolab::profiling
