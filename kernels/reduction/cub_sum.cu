// The sum of NVIDIA's library, with its workspace allocated once, and as in a published comparison,
// which allocates it in every call and never frees it.
//
// Source: CUB, DeviceReduce::Sum (of the CUDA toolkit that this is built with); kernel 5 of
//         S. Veitner, "Making vector sum really fast".
// Bound:  memory, and a second launch, which adds up the blocks' sums.
// Alone:  make bench KERNEL=cub_sum
#include <cub/device/device_reduce.cuh>
#include <cub/version.cuh>

#include "kernels/reduction/problem.hpp"
#include "kernels/registry.hpp"

namespace reprolab::reduction {
namespace {

/// Sets `bytes` where `workspace` is null.
cudaError_t sum(void* workspace, std::size_t& bytes, const Problem& problem, cudaStream_t stream) {
  return cub::DeviceReduce::Sum(workspace, bytes, problem.input, problem.output, problem.n, stream);
}

std::uint64_t workspace_bytes(const Problem& problem) {
  std::size_t bytes = 0;
  sum(nullptr, bytes, problem, nullptr);
  return bytes;
}

cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  std::size_t bytes = workspace_bytes(problem);
  return sum(problem.workspace, bytes, problem, stream);
}

cudaError_t launch_allocating(const Problem& problem, cudaStream_t stream) {
  std::size_t bytes = workspace_bytes(problem);
  void* workspace = nullptr;
  const cudaError_t error = cudaMalloc(&workspace, bytes);
  return error != cudaSuccess ? error : sum(workspace, bytes, problem, stream);
}

Kernel<Problem> kernel(const char* name, const char* lineage, const Launcher<Problem>& launch) {
  return {.name = name,
          .lineage = lineage,
          .source_file = "kernels/reduction/cub_sum.cu",
          .supports = [](const Problem&) { return Support::yes(); },
          .launch = launch,
          .origin = {Origin::Kind::peer, "CUB " + std::to_string(CUB_MAJOR_VERSION) + "." +
                                             std::to_string(CUB_MINOR_VERSION)},
          .workspace_bytes = workspace_bytes};
}

const Register<Problem> once([] { return kernel("cub_sum", "CUB, DeviceReduce::Sum", {launch}); });
const Register<Problem> allocating([] {
  auto made = kernel("cub_sum_allocating", "CUB as in Veitner's kernel 5", {launch_allocating});
  made.workspace_bytes = nullptr;
  return made;
});

}  // namespace
}  // namespace reprolab::reduction
