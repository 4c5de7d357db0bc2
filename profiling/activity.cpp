#include "profiling/activity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "common/not_measured.hpp"
#include "profiling/activity_parser.hpp"
#include "profiling/cupti_library.hpp"

namespace reprolab::profiling {
namespace {

// 8 MiB hold some 30000 launches. The first buffers are touched before anything is measured.
constexpr std::size_t buffer_bytes = 8u << 20;
constexpr std::size_t buffer_alignment = 8;  // ACTIVITY_RECORD_ALIGNMENT
constexpr std::size_t first_buffers = 4;

// CUPTI ties external ids to the API call that launches, so API calls are recorded too: the
// runtime's, and the driver's for peers that launch through it.
constexpr CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                        CUPTI_ACTIVITY_KIND_RUNTIME,
                                        CUPTI_ACTIVITY_KIND_DRIVER,
                                        CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        CUPTI_ACTIVITY_KIND_MEMCPY,
                                        CUPTI_ACTIVITY_KIND_MEMSET};

/// Buffers that pass records from CUPTI's threads to ours. Filled buffers are not parsed before the
/// flush, so that parsing costs the measured pass no time.
class Buffers {
 public:
  struct Filled {
    std::uint8_t* data;
    std::size_t valid_bytes;
  };

  void reserve() {
    const std::lock_guard lock(mutex_);
    while (free_.size() < first_buffers) free_.push_back(allocate());
  }

  std::uint8_t* get() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return allocate();
    std::uint8_t* data = free_.back();
    free_.pop_back();
    return data;
  }

  void fill(Filled buffer) {
    const std::lock_guard lock(mutex_);
    filled_.push_back(buffer);
  }

  std::vector<Filled> take_filled() {
    const std::lock_guard lock(mutex_);
    return std::exchange(filled_, {});
  }

  void put_back(std::uint8_t* data) {
    const std::lock_guard lock(mutex_);
    free_.push_back(data);
  }

 private:
  /// Null if memory is exhausted: CUPTI then drops records and counts them.
  static std::uint8_t* allocate() {
    void* data = std::aligned_alloc(buffer_alignment, buffer_bytes);
    if (data) std::fill_n(static_cast<std::uint8_t*>(data), buffer_bytes, std::uint8_t{0});
    return static_cast<std::uint8_t*>(data);
  }

  std::mutex mutex_;
  std::vector<std::uint8_t*> free_;
  std::vector<Filled> filled_;
};

// Global: CUPTI's callbacks take no user data. Never destroyed: its threads may outlive main().
Buffers& buffers() {
  static Buffers& instance = *new Buffers;
  return instance;
}

void CUPTIAPI buffer_requested(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  *buffer = buffers().get();
  *size = *buffer ? buffer_bytes : 0;
  *max_records = 0;  // as many as fit
}

void CUPTIAPI buffer_completed(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                               std::size_t valid_bytes) {
  if (buffer) buffers().fill({buffer, valid_bytes});
}

std::atomic<bool> recorder_exists = false;

}  // namespace

struct ActivityRecorder::State {
  CuptiLibrary cupti = load_cupti();
  ActivityParser parser;
  bool recording = false;

  void disable() const {
    for (const CUpti_ActivityKind kind : kinds) cupti.disable(kind);
  }

  /// Parses every filled buffer and returns it to the free list.
  void parse() {
    std::string failure;
    for (const Buffers::Filled& buffer : buffers().take_filled()) {
      CUpti_Activity* record = nullptr;
      CUptiResult result = CUPTI_SUCCESS;
      while (buffer.valid_bytes > 0 &&
             (result = cupti.get_next_record(buffer.data, buffer.valid_bytes, &record)) ==
                 CUPTI_SUCCESS) {
        parser.add(*record);
      }
      buffers().put_back(buffer.data);
      if (result != CUPTI_SUCCESS && result != CUPTI_ERROR_MAX_LIMIT_REACHED && failure.empty()) {
        failure = fmt::format("activity recording: a record cannot be read (CUPTI error {})",
                              static_cast<int>(result));
      }
    }
    if (!failure.empty()) throw NotMeasured(failure + ". Repeat the run.");
  }

  /// Returns every filled buffer to the free list.
  static void drop() {
    for (const Buffers::Filled& buffer : buffers().take_filled()) buffers().put_back(buffer.data);
  }

  /// Since the last call.
  std::size_t dropped_records() const {
    std::size_t dropped = 0;
    cupti.check(cupti.get_num_dropped_records(nullptr, 0, &dropped),
                "cuptiActivityGetNumDroppedRecords");
    return dropped;
  }
};

ActivityRecorder::ActivityRecorder() {
  if (recorder_exists.exchange(true)) {
    throw std::logic_error(
        "activity recording: a second ActivityRecorder; CUPTI supports only one");
  }
  try {
    state_ = std::make_unique<State>();
  } catch (...) {
    recorder_exists = false;
    throw;
  }
}

ActivityRecorder::~ActivityRecorder() {
  try {
    stop();
  } catch (const std::exception&) {
    // Recording ends with the process at the latest.
  }
  recorder_exists = false;
}

void ActivityRecorder::start() {
  if (state_->recording) return;
  const CuptiLibrary& cupti = state_->cupti;
  buffers().reserve();
  cupti.check(cupti.register_callbacks(buffer_requested, buffer_completed),
              "cuptiActivityRegisterCallbacks");
  for (const CUpti_ActivityKind kind : kinds) {
    const CUptiResult result = cupti.enable(kind);
    if (result != CUPTI_SUCCESS) state_->disable();
    cupti.check(result, "cuptiActivityEnable");
  }
  state_->recording = true;
}

std::vector<KernelActivity> ActivityRecorder::flush() {
  const CuptiLibrary& cupti = state_->cupti;
  // Forced: an unfinished kernel then has no times, which the parser reports. An unforced flush
  // would hold back its whole buffer unnoticed.
  cupti.check(cupti.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  state_->parse();
  std::vector<KernelActivity> kernels = state_->parser.take();
  if (const std::size_t dropped = state_->dropped_records(); dropped > 0) {
    throw NotMeasured(fmt::format(
        "activity recording: CUPTI dropped {} records for lack of memory. Flush more often, or "
        "free host memory.",
        dropped));
  }
  return kernels;
}

void ActivityRecorder::discard() {
  const CuptiLibrary& cupti = state_->cupti;
  cupti.check(cupti.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  State::drop();
  state_->parser.clear();
  state_->dropped_records();
}

void ActivityRecorder::stop() {
  if (!state_->recording) return;
  state_->recording = false;
  const CuptiLibrary& cupti = state_->cupti;
  state_->disable();
  cupti.check(cupti.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  State::drop();
}

ScopedTag::ScopedTag(ActivityRecorder& recorder, std::uint64_t id) : recorder_(recorder) {
  const CuptiLibrary& cupti = recorder.state_->cupti;
  cupti.check(cupti.push_external_id(tag_kind, id), "cuptiActivityPushExternalCorrelationId");
}

ScopedTag::~ScopedTag() {
  std::uint64_t id = 0;
  recorder_.state_->cupti.pop_external_id(tag_kind, &id);
}

}  // namespace reprolab::profiling
