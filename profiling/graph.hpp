// Launches captured in a CUDA graph, which the GPU repeats without the host.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace reprolab::profiling {

class Graph {
 public:
  /// Captures the work that `enqueue` enqueues on `stream`, without running it. Throws CudaError if
  /// it cannot be captured, such as an allocation or a launch on the default stream, and whatever
  /// `enqueue` throws; the stream then works as before. All kernels must have been launched once.
  Graph(cudaStream_t stream, const std::function<void()>& enqueue);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch(cudaStream_t stream) const;

 private:
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace reprolab::profiling
