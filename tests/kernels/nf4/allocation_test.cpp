// No timed launch allocates: a library's user keeps what a launch needs besides its problem.
#include <vector>

#include "harness/nf4/workload.hpp"
#include "profiling/cuda_check.hpp"
#include "tests/kernels/nf4/on_gpu.hpp"

namespace reprolab::nf4 {
namespace {

class OnGpuAllocation : public OnGpuTest {};

/// How many nodes of a captured launch allocate or free. (What allocates at once, as cudaMalloc
/// does, fails the capture.)
int allocations(const Kernel<Problem>& kernel, const Problem& problem, cudaStream_t stream) {
  profiling::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "capturing");
  const cudaError_t launched = kernel.launch(problem, stream);
  cudaGraph_t graph = nullptr;
  profiling::check(cudaStreamEndCapture(stream, &graph), kernel.name);
  profiling::check(launched, kernel.name);
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

TEST_F(OnGpuAllocation, NoKernelAllocatesOnceItHasBeenVerified) {
  for (const bool nested : {false, true}) {
    const Tensor tensor = make_row(64 * 700, 64, nested);
    const DeviceTensor on_device(tensor.quantized);
    const profiling::DeviceBuffer output(2 * tensor.expected.size());
    const Problem problem = on_device.problem(output.data());
    const profiling::Stream stream;
    for (const auto& [name, kernel] : Registry<Problem>::instance().kernels()) {
      if (kernel.origin.kind != Origin::Kind::project || !kernel.supports(problem).ok) continue;
      profiling::check(kernel.launch(problem, stream.get()), name);
      stream.synchronize();
      EXPECT_EQ(allocations(kernel, problem, stream.get()), 0) << name << ", nested " << nested;
    }
  }
}

}  // namespace
}  // namespace reprolab::nf4
