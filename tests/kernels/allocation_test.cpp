// No launch allocates once the kernel has been launched on the problem, as before it is timed: a
// library's user keeps what a launch needs besides its problem.
#include <functional>

#include "tests/kernels/nf4/testing.hpp"
#include "tests/kernels/nf4_product/testing.hpp"

namespace reprolab {
namespace {

class OnGpuAllocation : public OnGpuTest {
 protected:
  /// Fails the test if a second launch allocates or frees, which are nodes of its graph. (What
  /// allocates at once, as cudaMalloc does, fails the capture.)
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
      profiling::check(cudaGraphNodeGetType(node, &type), "asking a node's type");
      EXPECT_NE(type, cudaGraphNodeTypeMemAlloc) << kernel;
      EXPECT_NE(type, cudaGraphNodeTypeMemFree) << kernel;
    }
    cudaGraphDestroy(graph);
  }
};

TEST_F(OnGpuAllocation, OfNoDequantization) {
  for (const bool nested : {false, true}) {
    const nf4::Tensor tensor = nf4::make_row(64 * 700, 64, nested);
    const nf4::DeviceTensor on_device(tensor.quantized);
    const profiling::DeviceBuffer output(2 * tensor.expected.size());
    const nf4::Problem problem = on_device.problem(output.data());
    for (const auto& [name, kernel] : Registry<nf4::Problem>::instance().kernels()) {
      if (!kernel.supports(problem).ok) continue;
      expect_none(name, [&](cudaStream_t stream) { return kernel.launch(problem, stream); });
    }
  }
}

TEST_F(OnGpuAllocation, OfNoProduct) {
  for (const bool nested : {false, true}) {
    for (const std::int64_t m : {1, 40}) {
      const auto workload = nf4_product::make_workload(
          {.weights = {.rows = 640, .columns = 1024, .nested = nested}, .m = m, .bias = true});
      for (const auto& [name, kernel] : Registry<nf4_product::Problem>::instance().kernels()) {
        if (!workload.supports(name).ok) continue;
        expect_none(name, [&](cudaStream_t stream) { return workload.launch(name, 0, stream); });
      }
    }
  }
}

}  // namespace
}  // namespace reprolab
