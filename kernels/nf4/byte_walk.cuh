// A simple scheme without CUB: a flat grid in which each thread takes one byte, which is two
// weights. Kernels differ in how they store the two weights.
//
// Source: the first kernels of D. Robertson's post, before and after its packed stores.
#pragma once

#include "kernels/nf4/constant_table.cuh"
#include "kernels/nf4/problem_types.hpp"
#include "kernels/nf4/support.hpp"

namespace reprolab::nf4 {

inline constexpr int byte_walk_threads = 256;

/// `Store`: `pair(output, byte, first, second)` writes weights 2 * byte and 2 * byte + 1.
template <class Store, class Index, class ScaleReader, class Out>
__global__ void __launch_bounds__(byte_walk_threads)
    byte_walk(const std::uint8_t* __restrict__ codes, const ScaleReader scales,
              Out* __restrict__ output, const Index n) {
  __shared__ float table[16];
  if (threadIdx.x < 16) table[threadIdx.x] = constant_table.entry[threadIdx.x];
  __syncthreads();

  const Index byte = static_cast<Index>(blockIdx.x) * byte_walk_threads + threadIdx.x;
  if (2 * byte >= n) return;
  const std::uint8_t packed_codes = codes[byte];
  const float scale = scales.at(2 * byte);  // block sizes are even: both weights share it
  const float first = scaled(table[first_code(packed_codes)], scale);
  if (2 * byte + 1 == n) {  // the last byte of an odd length holds one weight
    output[2 * byte] = round_to<Out>(first);
    return;
  }
  Store::pair(output, byte, first, scaled(table[second_code(packed_codes)], scale));
}

template <class Store, class Index, class ScaleReader, class Out>
cudaError_t launch_bytes(const Problem& problem, cudaStream_t stream) {
  const std::int64_t bytes = (problem.n + 1) / 2;
  const std::int64_t blocks = (bytes + byte_walk_threads - 1) / byte_walk_threads;
  if (blocks == 0) return cudaSuccess;
  byte_walk<Store, Index><<<static_cast<unsigned>(blocks), byte_walk_threads, 0, stream>>>(
      problem.codes, ScaleReader(problem), static_cast<Out*>(problem.output),
      static_cast<Index>(problem.n));
  return cudaGetLastError();
}

/// Launches the walk for a problem's length, kind of scales and output type.
template <class Store>
cudaError_t launch_byte_walk(const Problem& problem, cudaStream_t stream) {
  return with_problem_types(
      problem, [&]<class Index, class ScaleReader, class Out>(Types<Index, ScaleReader, Out>) {
        return launch_bytes<Store, Index, ScaleReader, Out>(problem, stream);
      });
}

}  // namespace reprolab::nf4
