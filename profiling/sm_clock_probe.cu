#include "profiling/global_timer.cuh"
#include "profiling/sm_clock_probe.hpp"

namespace reprolab::profiling {
namespace {

constexpr std::uint64_t window_ns = 100'000;
constexpr long long patience_cycles = 20'000'000;  // some 10 ms

// globaltimer moves in steps of 1 us on Hopper and of up to 32 us elsewhere. Both ends of the
// window coincide with a step, so its length is exact to the few cycles of one loop iteration.
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
