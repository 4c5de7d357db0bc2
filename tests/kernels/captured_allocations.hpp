// Whether a launch allocates.
#pragma once

#include <functional>
#include <vector>

#include "profiling/cuda_check.hpp"

namespace reprolab {

/// How many nodes of a captured launch allocate or free. (What allocates at once, as cudaMalloc
/// does, fails the capture.)
inline int captured_allocations(const std::function<cudaError_t()>& launch, cudaStream_t stream) {
  profiling::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "capturing");
  const cudaError_t launched = launch();
  cudaGraph_t graph = nullptr;
  profiling::check(cudaStreamEndCapture(stream, &graph), "capturing");
  profiling::check(launched, "launching");
  std::size_t count = 0;
  profiling::check(cudaGraphGetNodes(graph, nullptr, &count), "counting nodes");
  std::vector<cudaGraphNode_t> nodes(count);
  profiling::check(cudaGraphGetNodes(graph, nodes.data(), &count), "listing nodes");
  int found = 0;
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    profiling::check(cudaGraphNodeGetType(node, &type), "asking a node's type");
    found += type == cudaGraphNodeTypeMemAlloc || type == cudaGraphNodeTypeMemFree;
  }
  cudaGraphDestroy(graph);
  return found;
}

}  // namespace reprolab
