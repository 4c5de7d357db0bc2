// The streaming walk: a thread loads words of 8 codes and writes each as 8 weights in one 16-byte
// store. A warp reads 128 consecutive bytes and writes 512.
#pragma once

#include <type_traits>

#include "kernels/access.cuh"
#include "kernels/nf4/constant_table.cuh"
#include "kernels/nf4/problem_types.hpp"
#include "kernels/nf4/staged_scales.cuh"
#include "kernels/nf4/support.hpp"
#include "kernels/nf4/words.hpp"

namespace reprolab::nf4 {

/// The tiling: a thread has `WordsPerThread` words, `Threads` words apart. `Reads` loads codes and
/// scales, `Stores` writes the weights. The codes and scales of `BurstWords` words at a time are
/// prefetched to L2, `AheadWords` words ahead of their use, so that memory is read in long bursts
/// between the writes; 0: no prefetch.
template <int Threads, int WordsPerThread, class Reads = StreamingAccess,
          class Stores = StreamingAccess, int AheadWords = 512 << 10, int BurstWords = 8 << 10>
struct StreamShape {
  static_assert(Threads % 32 == 0);
  static_assert(BurstWords % (Threads * WordsPerThread) == 0);
  using Loads = Reads;
  using Writes = Stores;
  static constexpr int threads = Threads, words = WordsPerThread;
  static constexpr int tile_words = Threads * WordsPerThread;
  static constexpr int ahead_words = AheadWords, burst_words = BurstWords;
};

/// The same without a prefetch to L2.
template <int Threads, int WordsPerThread>
using NothingAhead = StreamShape<Threads, WordsPerThread, StreamingAccess, StreamingAccess, 0>;

/// All 8 weights of a word, rounded, in the order of the output. `scale(i)` is the scale of weight
/// i.
template <class Out, class Scale>
__device__ uint4 decoded(const float* table, EntryOffsets offsets, Scale scale) {
  const auto weight = [&](int i) {
    const char* entry = reinterpret_cast<const char*>(table) + offsets.of(i);
    return scaled(*reinterpret_cast<const float*>(entry), scale(i));
  };
  const auto pair = [&](int first) { return packed<Out>(weight(first), weight(first + 1)); };
  return {pair(0), pair(2), pair(4), pair(6)};
}

template <class Shape, bool Aligned, class Index, class ScaleReader, class Out>
__global__ void __launch_bounds__(Shape::threads)
    streaming(const Words<Index> words, const std::uint8_t* __restrict__ codes,
              const ScaleReader scales, Out* __restrict__ output, const Index n) {
  using Scales = StagedScales<ScaleReader, Aligned>;
  __shared__ float table[16];
  __shared__ typename Scales::Storage storage;
  Scales::start(storage, scales);
  const auto fill_tables = [&] {
    Scales::template fill<Shape::threads>(storage, scales);
    if (threadIdx.x < 16) table[threadIdx.x] = constant_table.entry[threadIdx.x];
    __syncthreads();
    Scales::wait(storage);
  };

  const typename Shape::Loads reads;
  const auto block_of = [&](Index weight) { return weight >> scales.shift; };
  const Index tile = static_cast<Index>(blockIdx.x) * Shape::tile_words;
  if (tile >= words.count) {
    // The last blocks decode the weights outside of the tiles, one per thread.
    const Index tile_threads = words.count / Shape::words;
    const Index rest = static_cast<Index>(blockIdx.x) * Shape::threads + threadIdx.x - tile_threads;
    const Index weight = rest < words.first ? rest : words.count * weights_per_word + rest;
    const bool exists = weight < n;
    const std::uint8_t byte = exists ? codes[weight / 2] : 0;
    const auto loaded =
        exists ? Scales::load(reads, scales, block_of(weight)) : typename Scales::Loaded{};
    fill_tables();
    const unsigned code = weight % 2 == 0 ? first_code(byte) : second_code(byte);
    const float scale = Scales::value(storage, scales, loaded);
    if (exists) output[weight] = round_to<Out>(scaled(table[code], scale));
    return;
  }

  const auto first_weight = [&](Index at) { return words.first + at * weights_per_word; };
  const Index ahead = tile + Shape::ahead_words;
  if (Shape::ahead_words > 0 && tile % Shape::burst_words == 0 && ahead < words.count) {
    prefetch_to_l2<Shape::threads>(words.codes, ahead, Shape::burst_words, words.count);
    Scales::template prefetch<Shape::threads>(scales, first_weight(ahead),
                                              Shape::burst_words * weights_per_word, n);
  }

  // All loads come before the barrier, so all are in flight at once.
  const Index own = tile + threadIdx.x;
  const std::uint32_t* const own_codes = words.codes + own;
  std::uint32_t word[Shape::words], next[Shape::words] = {};
#pragma unroll
  for (int i = 0; i < Shape::words; ++i) {
    word[i] = reads.load(own_codes + i * Shape::threads);
    if (!Aligned) next[i] = reads.load(own_codes + i * Shape::threads + 1);
  }

  // A thread with one aligned word loads its scale. Otherwise a warp loads the scales of each group
  // of 32 words once, in 8 lanes, or in 16 if words are not aligned: a group can then have 9
  // scales, and a word two. One load thus serves several groups, which are `Threads` words apart.
  // Scales are indexed by parts of min(quantization block, 256 weights), so each group has the same
  // offset within a part, and a lane shuffles from the same source lanes in every group.
  constexpr bool own_scale = Aligned && Shape::words == 1;
  constexpr int share = Aligned ? 8 : 16;
  constexpr int groups = 32 / share < Shape::words ? 32 / share : Shape::words;
  static_assert(Shape::words % groups == 0);
  constexpr unsigned log2_group = 8;  // of its weights
  static_assert(32 * weights_per_word == 1 << log2_group);
  const int lane = threadIdx.x % 32, log2_part = min(scales.shift, int{log2_group});
  const unsigned into_part = words.first & ((1u << log2_part) - 1);
  const auto parts_until = [&](unsigned weight) -> int {
    return (into_part + weight) >> log2_part;
  };
  const Index first_of_group = own - lane + min(lane / share, groups - 1) * Shape::threads;
  const Index part = (first_weight(first_of_group) >> log2_part) +
                     min(lane % share, parts_until((1u << log2_group) - 1));
  typename Scales::Loaded loaded[Shape::words / groups];
#pragma unroll
  for (int i = 0; i < Shape::words / groups; ++i) {
    const int weights = i * groups * Shape::threads * weights_per_word;
    const Index block = own_scale ? block_of(first_weight(own))
                                  : (part + (weights >> log2_part)) >> (scales.shift - log2_part);
    loaded[i] = Scales::load(reads, scales, block);
  }
  fill_tables();

  const typename Shape::Writes stores;
  uint4* const own_weights = reinterpret_cast<uint4*>(output + words.first) + own;
  const int first_scale = parts_until(lane * weights_per_word),
            last_scale = parts_until(lane * weights_per_word + weights_per_word - 1);
  // If a block starts inside a word, it starts at the same place in every such word.
  const int before = Aligned ? 0 : static_cast<int>(-words.first % weights_per_word);
#pragma unroll
  for (int i = 0; i < Shape::words; ++i) {
    const float scale = Scales::value(storage, scales, loaded[i / groups]);
    const int from = i % groups * share;
    const float first = own_scale ? scale : __shfl_sync(~0u, scale, from + first_scale),
                last = Aligned ? first : __shfl_sync(~0u, scale, from + last_scale);
    const auto offsets = entry_offsets(word[i], next[i], Aligned ? 0 : words.shift);
    const uint4 weights =
        decoded<Out>(table, offsets, [=](int k) { return k < before ? first : last; });
    stores.store(own_weights + i * Shape::threads, weights);
  }
}

/// Enqueues the walk over the words that fill tiles, for one combination of types.
template <class Shape, bool Aligned, class Index, class ScaleReader, class Out>
cudaError_t enqueue_streaming(const Problem& problem, const Words<std::int64_t>& cut,
                              cudaStream_t stream) {
  const Words<std::int64_t> tiles = cut.in_tiles_of(Shape::tile_words);
  const std::int64_t rest = problem.n - tiles.count * weights_per_word;
  const std::int64_t blocks = tiles.count / Shape::tile_words + blocks_over(rest, Shape::threads);
  if (blocks == 0) return cudaSuccess;
  streaming<Shape, Aligned><<<grid_of(blocks), Shape::threads, 0, stream>>>(
      Words<Index>(tiles), problem.codes, ScaleReader(problem), static_cast<Out*>(problem.output),
      static_cast<Index>(problem.n));
  return cudaGetLastError();
}

/// Launches the walk in the shape for plain scales, for nested ones, or, whatever the scales, for
/// words that are not aligned.
template <class Plain, class Nested = Plain, class Unaligned = Nested>
cudaError_t launch_streaming(const Problem& problem, cudaStream_t stream) {
  const Words<std::int64_t> cut = words_of(problem);
  return with_problem_types(problem, [&]<class Index, class ScaleReader, class Out>() {
    constexpr bool nested = std::is_same_v<ScaleReader, NestedScaleReader>;
    using Aligned = std::conditional_t<nested, Nested, Plain>;
    const auto enqueue = cut.are_aligned
                             ? enqueue_streaming<Aligned, true, Index, ScaleReader, Out>
                             : enqueue_streaming<Unaligned, false, Index, ScaleReader, Out>;
    return enqueue(problem, cut, stream);
  });
}

}  // namespace reprolab::nf4
