// streaming, with nested scales decoded as in bitsandbytes and Unsloth: a separate launch writes
// the fp32 scales to memory, and streaming then reads them as plain ones. With plain scales there
// is one launch, streaming's.
//
// Source: the two calls of Unsloth's fast_dequantize, but with streaming in the place of the
//         library's kernel, and with the offset added where a scale is decoded instead of in
//         between.
// Bound:  memory, as streaming, plus one launch; each scale is also written and read.
// Alone:  make bench KERNEL=two_launches
#include "kernels/nf4/fp32_scales.cuh"
#include "kernels/nf4/scales.hpp"
#include "kernels/registry.hpp"

namespace reprolab::nf4 {
namespace {

constexpr int threads = 256;

__global__ void __launch_bounds__(threads)
    decode_scales(const NestedScaleReader scales, float* __restrict__ absmax, std::int64_t blocks) {
  const std::int64_t block = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (block < blocks) absmax[block] = scales.block_scale(block);
}

cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  const auto streaming = kernel_named<Problem>("streaming").launch;
  if (!problem.is_nested()) return streaming(problem, stream);
  return with_fp32_scales(problem, stream, [&](float* absmax, std::int64_t blocks) {
    const unsigned grid = grid_of(blocks_over(blocks, threads));
    decode_scales<<<grid, threads, 0, stream>>>(NestedScaleReader(problem), absmax, blocks);
    if (const auto error = cudaGetLastError(); error != cudaSuccess) return error;
    Problem plain = problem;
    plain.nested = {};
    plain.absmax = absmax;
    return streaming(plain, stream);
  });
}

const Register<Problem> registered{[]() -> Kernel<Problem> {
  return {
      .name = "two_launches",
      .lineage = "ours: nested scales as in Unsloth's two calls",
      .supports = supports_standard_table,
      .launch = launch,
      .code_files = [](int) -> std::vector<std::string> {
        return {"kernels/nf4/two_launches.cu", "kernels/nf4/streaming.cu"};
      },
  };
}};

}  // namespace
}  // namespace reprolab::nf4
