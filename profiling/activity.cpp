#include "profiling/activity.hpp"

#include <cuda_occupancy.h>
#include <cupti.h>
#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>

#include "profiling/basics.hpp"
#include "profiling/cupti_library.hpp"

namespace reprolab::profiling {
namespace {

// 8 MiB hold some 30000 launches. The first buffers are touched before a measurement.
constexpr std::size_t buffer_bytes = 8u << 20;
constexpr std::size_t buffer_alignment = 8;  // ACTIVITY_RECORD_ALIGNMENT
constexpr std::size_t first_buffers = 4;

// CUPTI attaches external ids to the launching API call, so API calls are also recorded: the
// runtime's, and the driver's for peers that launch through it.
constexpr CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                        CUPTI_ACTIVITY_KIND_RUNTIME,
                                        CUPTI_ACTIVITY_KIND_DRIVER,
                                        CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        CUPTI_ACTIVITY_KIND_MEMCPY,
                                        CUPTI_ACTIVITY_KIND_MEMSET};

/// The kind of external id that carries our tags.
constexpr CUpti_ExternalCorrelationKind tag_kind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

/// Buffers that pass records from CUPTI's threads to ours. Filled buffers are parsed only at the
/// flush, so that parsing takes no time of the measured pass.
struct Buffers {
  std::mutex mutex;
  std::vector<std::uint8_t*> free;
  std::vector<std::span<std::uint8_t>> filled;
};

// Global: CUPTI's callbacks take no user data. Never destroyed: its threads may outlive main().
Buffers& buffers() {
  static Buffers& instance = *new Buffers;
  return instance;
}

/// Null if memory is exhausted: CUPTI then drops records and counts them.
std::uint8_t* allocate_buffer() {
  auto* data = static_cast<std::uint8_t*>(std::aligned_alloc(buffer_alignment, buffer_bytes));
  if (data) std::fill_n(data, buffer_bytes, std::uint8_t{0});
  return data;
}

void CUPTIAPI buffer_requested(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  Buffers& all = buffers();
  const std::lock_guard lock(all.mutex);
  if (all.free.empty()) all.free.push_back(allocate_buffer());
  *buffer = all.free.back();
  all.free.pop_back();
  *size = *buffer ? buffer_bytes : 0;
  *max_records = 0;  // as many as fit
}

void CUPTIAPI buffer_completed(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                               std::size_t valid_bytes) {
  const std::lock_guard lock(buffers().mutex);
  if (buffer) buffers().filled.push_back({buffer, valid_bytes});
}

/// Empties every filled buffer: `read` gets its contents.
template <class Read>
void empty_buffers(Read read) {
  Buffers& all = buffers();
  std::unique_lock lock(all.mutex);
  const auto filled = std::exchange(all.filled, {});
  lock.unlock();
  for (const auto& buffer : filled) read(buffer.data(), buffer.size());
  lock.lock();
  for (const auto& buffer : filled) all.free.push_back(buffer.data());
}

// CUPTI's newer records (of kernels: 10 in CUDA 13.0, 11 in 13.2) begin with these layouts and
// append members that are not used here. So these oldest layouts, of CUDA 12.0, read the records of
// any loaded library, whether it is newer or older than the headers of this build.
using KernelRecord = CUpti_ActivityKernel9;
using CopyRecord = CUpti_ActivityMemcpy5;
using FillRecord = CUpti_ActivityMemset4;

/// Reads the fields that are common to all kinds of records.
template <class Record>
KernelActivity activity_of(const Record& record, std::string name, bool is_kernel) {
  return {.name = std::move(name),
          .is_kernel = is_kernel,
          .start_ns = record.start,
          .end_ns = record.end,
          .correlation_id = record.correlationId};
}

}  // namespace

struct ActivityRecorder::State {
  CuptiCalls cupti{"activity recording",
                   "--instrument=none needs no CUPTI, but measures no times."};
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks;
  decltype(&cuptiActivityEnable) enable;
  decltype(&cuptiActivityDisable) disable;
  decltype(&cuptiActivityFlushAll) flush_all;
  decltype(&cuptiActivityGetNextRecord) get_next_record;
  decltype(&cuptiActivityGetNumDroppedRecords) get_num_dropped_records;
  decltype(&cuptiActivityPushExternalCorrelationId) push_external_id;
  decltype(&cuptiActivityPopExternalCorrelationId) pop_external_id;

  std::vector<KernelActivity> recorded;                    ///< Without their tags.
  std::unordered_map<std::uint32_t, std::uint64_t> tags;   ///< Tag by correlation id.
  std::unordered_map<std::string, std::string> demangled;  ///< By mangled name.

  State() {
    cupti.bind(cupti.open(), "12.4",
               {{cupti.get_result_string, "cuptiGetResultString"},
                {register_callbacks, "cuptiActivityRegisterCallbacks"},
                {enable, "cuptiActivityEnable"},
                {disable, "cuptiActivityDisable"},
                {flush_all, "cuptiActivityFlushAll"},
                {get_next_record, "cuptiActivityGetNextRecord"},
                {get_num_dropped_records, "cuptiActivityGetNumDroppedRecords"},
                {push_external_id, "cuptiActivityPushExternalCorrelationId"},
                {pop_external_id, "cuptiActivityPopExternalCorrelationId"}});
    {
      Buffers& all = buffers();
      const std::lock_guard lock(all.mutex);
      while (all.free.size() < first_buffers) all.free.push_back(allocate_buffer());
    }
    cupti.check(register_callbacks(buffer_requested, buffer_completed),
                "cuptiActivityRegisterCallbacks");
    for (const CUpti_ActivityKind kind : kinds) cupti.check(enable(kind), "cuptiActivityEnable");
  }

  ~State() {
    for (const CUpti_ActivityKind kind : kinds) disable(kind);
    flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    empty_buffers([](auto*, std::size_t) {});
  }

  /// Forced: an unfinished kernel then has no times, which is detected. An unforced flush would
  /// silently hold back its whole buffer.
  void fill_buffers() const {
    cupti.check(flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  }

  /// The records since the last call.
  std::size_t dropped_records() const {
    std::size_t dropped = 0;
    cupti.check(get_num_dropped_records(nullptr, 0, &dropped), "cuptiActivityGetNumDroppedRecords");
    return dropped;
  }

  /// Keeps the needed fields of a record; kinds other than kernels, copies, fills and tags are
  /// ignored.
  void keep(const CUpti_Activity& record) {
    if (record.kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) {
      const auto& tag = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(record);
      if (tag.externalKind == tag_kind) tags[tag.correlationId] = tag.externalId;
    } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      recorded.push_back(activity_of(reinterpret_cast<const CopyRecord&>(record), "copy", false));
    } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      recorded.push_back(activity_of(reinterpret_cast<const FillRecord&>(record), "fill", false));
    } else if (record.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      const auto& kernel = reinterpret_cast<const KernelRecord&>(record);
      KernelActivity& activity =
          recorded.emplace_back(activity_of(kernel, readable_name(kernel.name), true));
      activity.grid = {kernel.gridX, kernel.gridY, kernel.gridZ};
      activity.block = {kernel.blockX, kernel.blockY, kernel.blockZ};
      activity.registers_per_thread = kernel.registersPerThread;
      activity.static_shared_bytes = kernel.staticSharedMemory;
      activity.dynamic_shared_bytes = kernel.dynamicSharedMemory;
    }
  }

  std::string readable_name(const char* name) {
    if (!name) return "unknown";
    const auto [known, is_new] = demangled.try_emplace(name, name);
    if (is_new) {
      int status = 0;
      const std::unique_ptr<char, decltype(&std::free)> text(
          abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
      if (text) known->second = text.get();
    }
    return known->second;
  }
};

ActivityRecorder::ActivityRecorder() : state_(std::make_unique<State>()) {}

ActivityRecorder::~ActivityRecorder() = default;

std::vector<KernelActivity> ActivityRecorder::flush() {
  state_->fill_buffers();
  CUptiResult end = CUPTI_ERROR_MAX_LIMIT_REACHED;
  empty_buffers([&](std::uint8_t* data, std::size_t valid_bytes) {
    CUpti_Activity* record = nullptr;
    CUptiResult result = CUPTI_ERROR_MAX_LIMIT_REACHED;
    while (valid_bytes > 0 &&
           (result = state_->get_next_record(data, valid_bytes, &record)) == CUPTI_SUCCESS) {
      state_->keep(*record);
    }
    if (result != CUPTI_ERROR_MAX_LIMIT_REACHED) end = result;
  });
  // A tag's record may come before or after its kernel's, in the same buffer or in another.
  std::vector<KernelActivity> kernels = std::exchange(state_->recorded, {});
  const auto tags = std::exchange(state_->tags, {});
  const std::size_t dropped = state_->dropped_records();
  if (end != CUPTI_ERROR_MAX_LIMIT_REACHED) {
    throw NotMeasured(
        fmt::format("activity recording: a record cannot be read (CUPTI error {}). Repeat the run.",
                    static_cast<int>(end)));
  }
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
  if (dropped > 0) {
    throw NotMeasured(fmt::format(
        "activity recording: CUPTI dropped {} records for lack of memory. Flush more often, or "
        "free host memory.",
        dropped));
  }
  std::ranges::stable_sort(kernels, {}, &KernelActivity::start_ns);
  return kernels;
}

void ActivityRecorder::discard() {
  state_->fill_buffers();
  empty_buffers([](auto*, std::size_t) {});
  state_->dropped_records();
}

ScopedTag::ScopedTag(ActivityRecorder& recorder, std::uint64_t id) : recorder_(recorder) {
  const ActivityRecorder::State& state = *recorder.state_;
  state.cupti.check(state.push_external_id(tag_kind, id), "cuptiActivityPushExternalCorrelationId");
}

ScopedTag::~ScopedTag() {
  std::uint64_t id = 0;
  recorder_.state_->pop_external_id(tag_kind, &id);
}

ActivitySum sum(const std::vector<KernelActivity>& kernels) {
  if (kernels.empty()) return {};
  std::uint64_t first_ns = kernels.front().start_ns, last_ns = 0, busy_ns = 0;
  for (const KernelActivity& kernel : kernels) {
    first_ns = std::min(first_ns, kernel.start_ns);
    last_ns = std::max(last_ns, kernel.end_ns);
    busy_ns += kernel.end_ns - kernel.start_ns;
  }
  return {.busy_us = 1e-3 * static_cast<double>(busy_ns), .first_ns = first_ns, .last_ns = last_ns};
}

std::optional<int> blocks_per_multiprocessor(const KernelActivity& kernel,
                                             const cudaDeviceProp& device) {
  const cudaOccDeviceProp properties(device);
  const cudaOccDeviceState state;
  cudaOccFuncAttributes attributes;
  attributes.maxThreadsPerBlock = INT_MAX;
  attributes.numRegs = static_cast<int>(kernel.registers_per_thread);
  attributes.sharedSizeBytes = static_cast<std::size_t>(kernel.static_shared_bytes);
  attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  attributes.maxDynamicSharedSizeBytes = device.sharedMemPerBlockOptin;
  cudaOccResult result;
  const int threads = kernel.block[0] * kernel.block[1] * kernel.block[2];
  if (cudaOccMaxActiveBlocksPerMultiprocessor(
          &result, &properties, &attributes, &state, threads,
          static_cast<std::size_t>(kernel.dynamic_shared_bytes)) != CUDA_OCC_SUCCESS) {
    return std::nullopt;
  }
  return result.activeBlocksPerMultiprocessor;
}

}  // namespace reprolab::profiling
