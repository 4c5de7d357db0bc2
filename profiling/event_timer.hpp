// Time of a batch of launches, from one pair of CUDA events around all of it.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <functional>

#include "profiling/cuda_check.hpp"

namespace reprolab::profiling {

struct BatchTime {
  double us = 0;
  /// Whether every launch was enqueued before the GPU began the first. If not, `us` may hold time
  /// that the GPU spent waiting for the host, and is an upper bound.
  bool host_ahead = false;
};

/// Keeps the host ahead of the GPU: a one-thread kernel before the first event holds the stream
/// until the host has enqueued the whole batch, so the span between the events holds kernels and
/// the GPU's own gaps, and no launch latency of the host.
///
/// Not a CUDA graph: a peer's library may allocate or synchronize, which cannot be captured, and a
/// graph's launches are spaced differently from those a user's program makes.
class EventTimer {
 public:
  /// `patience` bounds the hold, in case the batch synchronizes by itself or fills the stream's
  /// queue (about 1000 launches): then the GPU starts anyway, and `host_ahead` is false.
  explicit EventTimer(std::chrono::microseconds patience = std::chrono::milliseconds(20));

  /// Calls `enqueue` once, with `stream`, and waits for the GPU. Launch every kernel of the batch
  /// once before (modules load lazily at the first launch, which waits for the stream).
  /// Throws what `enqueue` throws, and std::runtime_error when CUDA fails.
  BatchTime time(const std::function<void(cudaStream_t)>& enqueue, cudaStream_t stream);

 private:
  struct Hold {
    int released = 0;  ///< Written by the host: the batch is enqueued.
    int expired = 0;   ///< Written by the GPU: it waited too long.
  };

  std::chrono::nanoseconds patience_;
  MappedArray<Hold> hold_;
  Event start_;
  Event end_;
};

}  // namespace reprolab::profiling
