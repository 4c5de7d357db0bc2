#include "profiling/graph.hpp"

#include "profiling/cuda_check.hpp"

namespace reprolab::profiling {
namespace {

/// Ends the capture even if `enqueue` throws, so that the stream can be used again.
cudaGraph_t capture(cudaStream_t stream, const std::function<void()>& enqueue) {
  // Only this thread: NVML and CUPTI may call CUDA in others.
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning a capture");
  cudaGraph_t graph = nullptr;
  try {
    enqueue();
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();  // otherwise the next check would report it
    throw;
  }
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  if (ended != cudaSuccess) cudaGetLastError();
  check(ended, "capturing launches");
  return graph;
}

}  // namespace

Graph::Graph(cudaStream_t stream, const std::function<void()>& enqueue) {
  cudaGraph_t graph = capture(stream, enqueue);
  const cudaError_t made = cudaGraphInstantiate(&executable_, graph, 0);
  cudaGraphDestroy(graph);
  if (made != cudaSuccess) cudaGetLastError();
  check(made, "making a graph executable");
}

Graph::~Graph() { cudaGraphExecDestroy(executable_); }

void Graph::launch(cudaStream_t stream) const {
  check(cudaGraphLaunch(executable_, stream), "launching a graph");
}

}  // namespace reprolab::profiling
