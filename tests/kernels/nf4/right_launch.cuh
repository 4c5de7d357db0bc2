// What the kernels that break rules share: a launch that is right, one weight per thread.
#pragma once

#include "kernels/nf4/support.hpp"

namespace reprolab::nf4 {
namespace {

constexpr int threads = 256;

__device__ void dequantize_one(const Problem& problem) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= problem.n) return;
  const std::uint8_t byte = problem.codes[i / 2];
  const unsigned code = i % 2 == 0 ? first_code(byte) : second_code(byte);
  const std::int64_t block = i / problem.block_size;
  const NestedScales& nested = problem.nested;
  const float scale = nested.codes == nullptr
                          ? problem.absmax[block]
                          : nested_scale(nested.map[nested.codes[block]],
                                         nested.absmax[block / nested.block_size], nested.offset);
  const float weight = scaled(table_entry(static_cast<int>(code)), scale);
  if (problem.output_type == OutputType::fp16) {
    static_cast<__half*>(problem.output)[i] = round_to<__half>(weight);
  } else {
    static_cast<__nv_bfloat16*>(problem.output)[i] = round_to<__nv_bfloat16>(weight);
  }
}

__global__ void dequantize(const Problem problem) { dequantize_one(problem); }

unsigned blocks_for(const Problem& problem) {
  return static_cast<unsigned>((problem.n + threads - 1) / threads);
}

cudaError_t launch_right(const Problem& problem, cudaStream_t stream) {
  dequantize<<<blocks_for(problem), threads, 0, stream>>>(problem);
  return cudaGetLastError();
}

}  // namespace
}  // namespace reprolab::nf4
