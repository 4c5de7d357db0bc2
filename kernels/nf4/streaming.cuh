// The streaming walk: a thread loads words of 8 codes and writes each as 8 weights in one 16-byte
// store. A warp reads 128 consecutive bytes and writes 512. streaming.cu says what it is for.
#pragma once

#include "common/access.cuh"
#include "kernels/nf4/constant_table.cuh"
#include "kernels/nf4/problem_types.hpp"
#include "kernels/nf4/staged_scales.cuh"
#include "kernels/nf4/support.hpp"

namespace reprolab::nf4 {

/// How the work is cut: `WordsPerThread` words, `Threads` words apart. `Reads` loads the codes,
/// `Stores` writes the weights.
template <int Threads, int WordsPerThread, class Reads, class Stores = StreamingAccess>
struct StreamShape {
  static_assert(Threads % 32 == 0);  // and so enough to fill the table
  using CodeReads = Reads;
  using WeightStores = Stores;
  static constexpr int threads = Threads, words = WordsPerThread;
  static constexpr int tile_words = Threads * WordsPerThread;
};

/// That of the kernel `streaming`, which says why.
using StreamingShape = StreamShape<512, 2, KeepReads>;

/// All 8 weights of a word, rounded, in the order of the output.
template <class Out>
__device__ uint4 decoded(const float* table, std::uint32_t word, float scale) {
  const auto pair = [&](int first) {
    return packed<Out>(scaled(table[code_in_word(word, first)], scale),
                       scaled(table[code_in_word(word, first + 1)], scale));
  };
  return {pair(0), pair(2), pair(4), pair(6)};
}

/// One weight of a byte.
template <class Out, class Index, class ScaleReader>
__device__ Out decoded_alone(std::uint8_t byte, Index weight, const ScaleReader& scales) {
  const unsigned code = weight % 2 == 0 ? first_code(byte) : second_code(byte);
  return round_to<Out>(scaled(constant_table.entry[code], scales.at(weight)));
}

template <class Shape, class Index, class ScaleReader, class Out>
__global__ void __launch_bounds__(Shape::threads)
    streaming(const std::uint8_t* __restrict__ codes, const ScaleReader scales,
              Out* __restrict__ output, const Index n) {
  const Index words = n / weights_per_word;  // whole ones
  const Index tile = static_cast<Index>(blockIdx.x) * Shape::tile_words;
  if (tile >= words) {
    // A last block for the weights that do not fill a word, one per thread.
    const Index weight = words * weights_per_word + threadIdx.x;
    if (weight < n) output[weight] = decoded_alone<Out>(codes[weight / 2], weight, scales);
    return;
  }

  // All loads come before the barrier, so all are in flight at once.
  using Scales = StagedScales<ScaleReader>;
  const typename Shape::CodeReads reads;
  std::uint32_t word[Shape::words];
  typename Scales::Loaded loaded[Shape::words];
#pragma unroll
  for (int i = 0; i < Shape::words; ++i) {
    const Index at = tile + i * Shape::threads + threadIdx.x;
    word[i] = at < words ? reads.load(reinterpret_cast<const std::uint32_t*>(codes) + at) : 0;
    loaded[i] =
        at < words ? Scales::load(scales, at * weights_per_word) : typename Scales::Loaded{};
  }
  __shared__ float table[16];
  __shared__ typename Scales::Storage storage;
  Scales::template fill<Shape::threads>(storage, scales);
  if (threadIdx.x < 16) table[threadIdx.x] = constant_table.entry[threadIdx.x];
  __syncthreads();

  const typename Shape::WeightStores stores;
  // Threads past the end decode a word of zeros, because a branch around it would cost the others.
#pragma unroll
  for (int i = 0; i < Shape::words; ++i) {
    const Index at = tile + i * Shape::threads + threadIdx.x;
    const uint4 weights = decoded<Out>(table, word[i], Scales::value(storage, scales, loaded[i]));
    if (at < words) stores.store(reinterpret_cast<uint4*>(output) + at, weights);
  }
}

template <class Shape>
cudaError_t launch_streaming(const Problem& problem, cudaStream_t stream) {
  constexpr std::int64_t tile = std::int64_t{Shape::tile_words} * weights_per_word;
  const std::int64_t whole = problem.n / weights_per_word * weights_per_word;
  const std::int64_t blocks = (whole + tile - 1) / tile + (whole < problem.n ? 1 : 0);
  if (blocks == 0) return cudaSuccess;
  return with_problem_types(
      problem, [&]<class Index, class ScaleReader, class Out>(Types<Index, ScaleReader, Out>) {
        streaming<Shape><<<static_cast<unsigned>(blocks), Shape::threads, 0, stream>>>(
            problem.codes, ScaleReader(problem), static_cast<Out*>(problem.output),
            static_cast<Index>(problem.n));
        return cudaGetLastError();
      });
}

}  // namespace reprolab::nf4
