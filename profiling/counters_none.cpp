// The build with a CUDA toolkit older than CUPTI's range profiler: every counter is missing.
#include "profiling/counters.hpp"

namespace reprolab::profiling {
namespace {

constexpr const char* reason =
    "counters: built with a CUDA toolkit without the range profiler; build with CUDA 12.6 update 2 "
    "or newer.";

class NoCounters : public Instrument {
 public:
  explicit NoCounters(const CounterOptions& options) {
    for (const Counter& counter : options.counters) {
      missing_.push_back({counter.id, counter.unit, reason});
    }
    if (options.warn) options.warn(reason);
  }
  InstrumentKind kind() const override { return InstrumentKind::counters; }

  Sample measure(const Work& work, cudaStream_t stream) override {
    work.enqueue(stream, only_launch);
    check(cudaDeviceSynchronize(), work.name);
    return {.missing = missing_};
  }

 private:
  std::vector<Missing> missing_;
};

}  // namespace

CountedDevice CountedDevice::current() { return {}; }

std::unique_ptr<Instrument> make_counters(CounterOptions options, CountedDevice) {
  return std::make_unique<NoCounters>(options);
}

}  // namespace reprolab::profiling
