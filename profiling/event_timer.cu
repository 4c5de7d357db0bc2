#include <atomic>
#include <chrono>
#include <cstdint>

#include "profiling/event_timer.hpp"

namespace reprolab::profiling {
namespace {

/// Limits the hold, in case the batch synchronizes or fills the stream's queue: the GPU then starts
/// anyway, and `host_ahead` is false.
constexpr std::uint64_t patience_ns = 200'000'000;

// Volatile, so that each iteration reads host memory again. The sleep keeps the bus free.
__global__ void blocking_kernel(const volatile int* released, volatile int* expired) {
  const std::uint64_t start_ns = global_timer_ns();
  while (*released == 0) {
    if (global_timer_ns() - start_ns > patience_ns) {
      *expired = 1;
      return;
    }
    __nanosleep(500);
  }
}

constexpr std::uint64_t window_ns = 100'000;
constexpr long long patience_cycles = 20'000'000;  // some 10 ms

// globaltimer moves in steps of 32 ns on the recorded Hopper GPUs and of up to 32 us elsewhere.
// Both ends of the window coincide with a step, so its length is exact to one loop iteration (61
// cycles).
__device__ bool wait_for_step(std::uint64_t not_before_ns, long long give_up, std::uint64_t* ns,
                              long long* cycles) {
  const std::uint64_t start_ns = global_timer_ns();
  std::uint64_t now_ns = start_ns;
  do {
    now_ns = global_timer_ns();
    *cycles = clock64();
    if (*cycles > give_up) return false;
  } while (now_ns == start_ns || now_ns < not_before_ns);
  *ns = now_ns;
  return true;
}

__global__ void probe(SmClockProbe::Window* window) {
  const long long give_up = clock64() + patience_cycles;
  std::uint64_t start_ns = 0, end_ns = 0;
  long long start = 0, end = 0;
  SmClockProbe::Window result;
  if (wait_for_step(0, give_up, &start_ns, &start) &&
      wait_for_step(start_ns + window_ns, give_up, &end_ns, &end)) {
    result.cycles = static_cast<std::uint64_t>(end - start);
    result.nanoseconds = end_ns - start_ns;
  }
  *window = result;
}

}  // namespace

BatchTime EventTimer::time(const Batch& batch, cudaStream_t stream) {
  check(cudaStreamSynchronize(stream), "waiting for the work before a timed batch");
  Hold& hold = *hold_.data();
  const std::atomic_ref<int> released(hold.released);
  const std::atomic_ref<int> expired(hold.expired);
  released.store(0);
  expired.store(0);

  blocking_kernel<<<1, 1, 0, stream>>>(&hold.released, &hold.expired);
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

std::optional<double> SmClockProbe::mhz(cudaStream_t stream) {
  Window& window = *window_.data();
  window = {};
  probe<<<1, 1, 0, stream>>>(&window);
  check(cudaGetLastError(), "launching the SM clock probe");
  check(cudaStreamSynchronize(stream), "reading the SM clock");
  if (window.cycles == 0 || window.nanoseconds == 0) return std::nullopt;
  return 1e3 * static_cast<double>(window.cycles) / static_cast<double>(window.nanoseconds);
}

}  // namespace reprolab::profiling
