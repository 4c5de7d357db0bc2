#include "kernels/transpose/ptx_kernel.hpp"

#include <memory>
#include <utility>

namespace reprolab::transpose {

void add_ptx_kernel(const PtxKernel& kernel) {
  const auto ptx = std::make_shared<LoadedPtx>(kernel);
  Kernel<Problem> row = described<Problem>(kernel);
  const Kernel<Problem>& counterpart = kernel_named<Problem>(kernel.counterpart);
  row.contract = counterpart.contract;
  row.expected_output = counterpart.expected_output;
  row.supports = [ptx](const Problem& problem) {
    const Support support = tma_support(problem);
    return support.ok ? ptx->supports("fp32") : support;
  };
  row.launch = [ptx, swizzle = kernel.swizzle](const Problem& problem, cudaStream_t stream) {
    const std::int64_t tiles = tma_tiles(problem);
    if (tiles == 0) return cudaSuccess;
    TmaArguments arguments;
    const cudaError_t error = describe(problem, swizzle, arguments);
    return error != cudaSuccess ? error : ptx->launch("fp32", tiles, arguments.pointers(), stream);
  };
  Registry<Problem>::instance().add(std::move(row));
}

}  // namespace reprolab::transpose
