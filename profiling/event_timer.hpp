// The time of a batch of launches, from one pair of CUDA events around the whole batch, and the SM
// clock beside it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "profiling/cuda_check.hpp"

namespace reprolab::profiling {

/// Maximum number of calls that are enqueued while a stream is held. Its queue takes some 1000
/// entries. A call may need three (a library's two kernels for nested scales, and the offset added
/// in between), and the checks of launches need some.
inline constexpr int max_blocked_launches = 300;

/// The work that is launched between the two events, and callbacks around it.
struct Batch {
  std::function<void(cudaStream_t)> enqueue;
  /// Called when everything is enqueued and the stream is still held: the GPU has started none of
  /// its work. May be empty.
  std::function<void()> while_blocked{};
  /// Enqueues work that follows directly after the stop event. May be empty.
  std::function<void(cudaStream_t)> after_stop{};
};

struct BatchTime {
  double us = 0;
  /// Whether every launch was enqueued before the GPU began the first. If not, `us` may include
  /// time that the GPU spent waiting for the host, and is an upper bound.
  bool host_ahead = false;
  /// How long other streams were busy after this one had finished, on the host's clock: some 10 us
  /// if they were idle.
  double lingering_us = 0;
  /// From the release of the stream to the end of the enqueued work, including `after_stop`, on the
  /// host's clock: a check of `us`, some 20 us longer.
  double host_us = 0;
};

/// Keeps the host ahead of the GPU: a one-thread kernel before the first event holds the stream
/// until the host has enqueued the whole batch, so the time between the events consists of kernels
/// and the GPU's own gaps, without launch latency of the host.
///
/// Not a CUDA graph: a peer's library may allocate or synchronize, which cannot be captured, and a
/// graph's launches are spaced differently from those a user's program makes.
class EventTimer {
 public:
  /// Runs the batch once, and waits for the whole GPU. Every kernel of the batch must have been
  /// launched once before: modules load lazily at the first launch, which waits for the stream.
  /// Throws what the batch throws, and CudaError if CUDA fails.
  BatchTime time(const Batch& batch, cudaStream_t stream);

 private:
  struct Hold {
    int released = 0;  ///< Set by the host: the batch is enqueued.
    int expired = 0;   ///< Set by the GPU: it waited too long.
  };

  MappedArray<Hold> hold_{1};
  Event start_;
  Event end_;
};

/// The true SM clock at one moment of a stream: the number of cycles (clock64) that pass while the
/// GPU's wall clock (globaltimer) advances 100 us. NVML's value is a sample of some 10 ms; this one
/// belongs to the adjacent batch.
class SmClockProbe {
 public:
  /// The result of one probe; both are zero if it gave up because globaltimer stood still.
  struct Window {
    std::uint64_t cycles = 0, nanoseconds = 0;
  };

  /// The SM clock in MHz now, after the work on `stream`: runs one thread on one SM for 0.10 to
  /// 0.17 ms and waits for it. Empty if globaltimer stood still.
  std::optional<double> mhz(cudaStream_t stream);

 private:
  MappedArray<Window> window_{1};
};

#ifdef __CUDACC__
/// The GPU's wall clock, shared by all its SMs, in nanoseconds; it moves in steps of 32 ns on the
/// recorded Hopper GPUs and of up to 32 us on others.
__device__ inline std::uint64_t global_timer_ns() {
  std::uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}
#endif

}  // namespace reprolab::profiling
