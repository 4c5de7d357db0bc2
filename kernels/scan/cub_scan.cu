// The prefix sum of NVIDIA's library, of the whole vector, by decoupled look-back.
//
// Source: CUB, DeviceScan::InclusiveSum (of the CUDA toolkit that this is built with).
// Bound:  memory: each word is read and written once.
// Alone:  make bench KERNEL=cub_scan
#include <cub/device/device_scan.cuh>
#include <cub/version.cuh>

#include "kernels/registry.hpp"
#include "kernels/scan/problem.hpp"

namespace reprolab::scan {
namespace {

std::uint64_t workspace_bytes(const Problem& problem) {
  std::size_t bytes = 0;
  cub::DeviceScan::InclusiveSum(nullptr, bytes, problem.input, problem.output, problem.segment);
  return bytes;
}

cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  std::size_t bytes = workspace_bytes(problem);
  return cub::DeviceScan::InclusiveSum(problem.workspace, bytes, problem.input, problem.output,
                                       problem.segment, stream);
}

const Register<Problem> registered([]() -> Kernel<Problem> {
  return {.name = "cub_scan",
          .lineage = "CUB, DeviceScan::InclusiveSum",
          .supports =
              [](const Problem& problem) {
                return problem.segments == 1 ? Support::yes() : Support::no("never restarts");
              },
          .launch = Launcher<Problem>(launch),
          .origin = {Origin::Kind::peer, "CUB " + std::to_string(CUB_MAJOR_VERSION) + "." +
                                             std::to_string(CUB_MINOR_VERSION)},
          .workspace_bytes = workspace_bytes};
});

}  // namespace
}  // namespace reprolab::scan
