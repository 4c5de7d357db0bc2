// Only the first launch of a kernel on a problem may allocate; it precedes timing. Later launches
// reuse its memory.
#include <functional>

#include "tests/kernels/nf4/testing.hpp"
#include "tests/kernels/nf4_product/testing.hpp"

namespace reprolab {
namespace {

class OnGpuAllocation : public OnGpuTest {
 protected:
  /// Fails the test if a second launch allocates or frees, which would be nodes of its graph.
  /// (Immediate allocations such as cudaMalloc fail the capture.)
  void expect_none(const std::string& kernel,
                   const std::function<cudaError_t(cudaStream_t)>& launch) {
    const profiling::Stream stream;
    profiling::check(launch(stream.get()), kernel);
    stream.synchronize();
    profiling::check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeRelaxed),
                     "capturing");
    const cudaError_t launched = launch(stream.get());
    cudaGraph_t graph = nullptr;
    profiling::check(cudaStreamEndCapture(stream.get(), &graph), "capturing");
    profiling::check(launched, kernel);
    std::size_t count = 0;
    profiling::check(cudaGraphGetNodes(graph, nullptr, &count), "counting nodes");
    std::vector<cudaGraphNode_t> nodes(count);
    profiling::check(cudaGraphGetNodes(graph, nodes.data(), &count), "listing nodes");
    for (const cudaGraphNode_t node : nodes) {
      cudaGraphNodeType type{};
      profiling::check(cudaGraphNodeGetType(node, &type), "reading a node's type");
      EXPECT_NE(type, cudaGraphNodeTypeMemAlloc) << kernel;
      EXPECT_NE(type, cudaGraphNodeTypeMemFree) << kernel;
    }
    cudaGraphDestroy(graph);
  }

  /// The same for each of a family's kernels.
  template <class Problem>
  void expect_none(const FamilyWorkload<Problem>& workload) {
    for (const auto& [name, kernel] : Registry<Problem>::instance().kernels()) {
      if (!workload.supports(name).ok) continue;
      expect_none(name, [&](cudaStream_t stream) { return workload.launch(name, 0, stream); });
    }
  }
};

TEST_F(OnGpuAllocation, NoDequantizationOrProductAllocates) {
  for (const bool nested : {false, true}) {
    const nf4::Tensor tensor = nf4::make_row(64 * 700, 64, nested);
    expect_none(nf4::Nf4Workload(nf4::facts_of(tensor), {tensor}, 1));
    for (const std::int64_t m : {1, 40}) {
      expect_none(nf4_product::make_workload(
          {.weights = {.rows = 640, .columns = 1024, .nested = nested}, .m = m, .bias = true}));
    }
  }
}

}  // namespace
}  // namespace reprolab
