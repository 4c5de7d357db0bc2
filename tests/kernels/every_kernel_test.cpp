// Every kernel of every family on its family's small problems.
#include <gtest/gtest.h>

#include "harness/family.hpp"
#include "tests/kernels/testing.hpp"

namespace reprolab {
namespace {

TEST(EveryFamily, HasSmallProblems) {
  for (const Family* family : families()) {
    EXPECT_FALSE(family->small().empty()) << family->name();
    for (const auto& problem : family->small()) {
      EXPECT_LT(device_bytes(problem, 1), std::uint64_t{1} << 28) << problem.facts.name;
    }
  }
}

struct OneKernel {
  const Family* family;
  VariantInfo kernel;
};

/// Those of this project's files.
std::vector<OneKernel> every_kernel() {
  std::vector<OneKernel> all;
  for (const Family* family : families()) {
    for (const auto& kernel : family->kernels()) {
      if (kernel.source_file.ends_with(".cu")) all.push_back({family, kernel});
    }
  }
  return all;
}

/// Fails the test if a second launch allocates or frees, which would be nodes of its graph.
/// (Immediate allocations such as cudaMalloc fail the capture.)
void expect_no_allocation(const std::string& kernel, const Workload& workload) {
  const profiling::Stream stream;
  profiling::check(workload.launch(kernel, 0, stream.get()), kernel);
  stream.synchronize();
  profiling::check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeRelaxed), "capturing");
  const cudaError_t launched = workload.launch(kernel, 0, stream.get());
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

class OnGpuEveryKernel : public OnGpuTest, public testing::WithParamInterface<OneKernel> {};

TEST_P(OnGpuEveryKernel, KeepsItsContractAndAllocatesAtMostInItsFirstLaunch) {
  const auto& [family, kernel] = GetParam();
  const Proof proof(profiling::InstrumentKind::events);
  for (const auto& problem : family->small()) {
    if (!problem.supports(kernel.name).ok) continue;
    const auto workload = problem.prepare(3, 1);
    if (!workload->supports(kernel.name).ok) continue;
    const Verification verdict = proof.verify(kernel, *workload);
    EXPECT_TRUE(may_be_timed(verdict.outcome)) << problem.facts.name << ": " << verdict.reason;
    // A peer does what its users' launches do.
    if (kernel.origin.kind != Origin::Kind::peer) expect_no_allocation(kernel.name, *workload);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, OnGpuEveryKernel, testing::ValuesIn(every_kernel()),
                         [](const auto& info) { return info.param.kernel.name; });

}  // namespace
}  // namespace reprolab
