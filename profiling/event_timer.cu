#include <atomic>
#include <cstdint>

#include "profiling/event_timer.hpp"
#include "profiling/global_timer.cuh"

namespace reprolab::profiling {
namespace {

// Volatile, so that each iteration reads host memory again. The sleep keeps the bus free.
__global__ void blocking_kernel(const volatile int* released, volatile int* expired,
                                std::uint64_t patience_ns) {
  const std::uint64_t start_ns = global_timer_ns();
  while (*released == 0) {
    if (global_timer_ns() - start_ns > patience_ns) {
      *expired = 1;
      return;
    }
    __nanosleep(500);
  }
}

}  // namespace

EventTimer::EventTimer(std::chrono::microseconds patience) : patience_(patience), hold_(1) {}

BatchTime EventTimer::time(const Batch& batch, cudaStream_t stream) {
  check(cudaStreamSynchronize(stream), "waiting for the work before a timed batch");
  Hold& hold = *hold_.data();
  const std::atomic_ref<int> released(hold.released);
  const std::atomic_ref<int> expired(hold.expired);
  released.store(0);
  expired.store(0);

  blocking_kernel<<<1, 1, 0, stream>>>(&hold.released, &hold.expired,
                                       static_cast<std::uint64_t>(patience_.count()));
  check(cudaGetLastError(), "launching the kernel that holds the stream");
  try {
    start_.record(stream);
    batch.enqueue(stream);
    end_.record(stream);
    if (batch.after_stop) batch.after_stop(stream);
    if (batch.while_blocked) batch.while_blocked();
  } catch (...) {
    released.store(1);
    cudaStreamSynchronize(stream);  // the next batch must find the hold unused
    throw;
  }
  using Us = std::chrono::duration<double, std::micro>;
  const auto begin = std::chrono::steady_clock::now();
  released.store(1);
  check(cudaStreamSynchronize(stream), "waiting for a timed batch");
  const auto idle = std::chrono::steady_clock::now();
  check(cudaDeviceSynchronize(), "waiting for other streams");
  const Us lingering = std::chrono::steady_clock::now() - idle;
  return {elapsed_us(start_, end_), expired.load() == 0, lingering.count(),
          Us(idle - begin).count()};
}

}  // namespace reprolab::profiling
