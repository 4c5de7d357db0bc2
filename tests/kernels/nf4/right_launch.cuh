// Shared by test kernels: a launch that is correct, or wrong in one step. One weight per thread.
#pragma once

#include "kernels/nf4/support.hpp"
#include "tests/kernels/register_all.hpp"

namespace reprolab::nf4 {
namespace {

constexpr int threads = 256;

/// No fault; each faulty kernel differs from it in one member.
struct Sound {
  __device__ static bool skips(std::int64_t, std::int64_t) { return false; }
  __device__ static unsigned code(std::uint8_t byte, std::int64_t i) {
    return i % 2 == 0 ? first_code(byte) : second_code(byte);
  }
  __device__ static float entry(unsigned code) { return table_entry(static_cast<int>(code)); }
  __device__ static float nested(float entry, float absmax, float offset) {
    return nested_scale(entry, absmax, offset);
  }
};

template <class Fault = Sound>
__device__ void dequantize_one(const Problem& problem) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= problem.n || Fault::skips(i, problem.n)) return;
  const std::int64_t block = i / problem.block_size;
  const NestedScales& nested = problem.nested;
  const float scale = nested.codes == nullptr
                          ? problem.absmax[block]
                          : Fault::nested(nested.map[nested.codes[block]],
                                          nested.absmax[block / nested.block_size], nested.offset);
  const float weight = scaled(Fault::entry(Fault::code(problem.codes[i / 2], i)), scale);
  if (problem.output_type == OutputType::fp16) {
    static_cast<__half*>(problem.output)[i] = round_to<__half>(weight);
  } else {
    static_cast<__nv_bfloat16*>(problem.output)[i] = round_to<__nv_bfloat16>(weight);
  }
}

template <class Fault>
__global__ void dequantize(const Problem problem) {
  dequantize_one<Fault>(problem);
}

unsigned blocks_for(const Problem& problem) {
  return static_cast<unsigned>((problem.n + threads - 1) / threads);
}

template <class Fault = Sound>
cudaError_t launch_with(const Problem& problem, cudaStream_t stream) {
  dequantize<Fault><<<blocks_for(problem), threads, 0, stream>>>(problem);
  return cudaGetLastError();
}

cudaError_t launch_right(const Problem& problem, cudaStream_t stream) {
  return launch_with<Sound>(problem, stream);
}

__global__ void write_zero(__half* to) { *to = round_to<__half>(0.0f); }

/// Also writes the first element past an fp16 output.
cudaError_t launch_and_write_past_end(const Problem& problem, cudaStream_t stream) {
  const cudaError_t status = launch_right(problem, stream);
  write_zero<<<1, 1, 0, stream>>>(static_cast<__half*>(problem.output) + problem.n);
  return status;
}

}  // namespace
}  // namespace reprolab::nf4
