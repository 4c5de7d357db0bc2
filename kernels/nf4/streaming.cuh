// The streaming walk: a thread loads words of 8 codes and writes each as 8 weights in one 16-byte
// store. A warp reads 128 consecutive bytes and writes 512.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/access.cuh"
#include "kernels/bulk_copy.cuh"
#include "kernels/nf4/constant_table.cuh"
#include "kernels/nf4/scales.hpp"
#include "kernels/nf4/support.hpp"

namespace reprolab::nf4 {

// A dequantization as words: 8 codes that become 8 weights, which one 16-byte store can write,
// wherever in memory the arrays begin.

/// Four bytes of codes, loaded as one word: the first byte is the lowest.
inline constexpr int weights_per_word = 8;

/// The byte offsets of the entries of a word's 8 codes in a table of floats: for weights 0, 2, 4
/// and 6 in the bytes of `even`, for the others in `odd`. They are computed four at a time, because
/// integer operations take two cycles each on Hopper.
struct EntryOffsets {
  static constexpr std::uint32_t bits = 0x3c3c3c3c;
  std::uint32_t even, odd;

  __device__ unsigned of(int weight) const {
    const std::uint32_t four = weight % 2 == 0 ? even : odd;
    return __byte_perm(four, 0, static_cast<unsigned>(0x4440 + weight / 2));
  }
};

/// The 8 codes that begin `shift` bits (a multiple of 4, below 32) into `word` and may end in
/// `next`. The high halves of bytes are the codes of every other weight, the low ones those
/// between. Where the first code is a low half, the high halves belong to the bytes one further.
__device__ inline EntryOffsets entry_offsets(std::uint32_t word, std::uint32_t next = 0,
                                             unsigned shift = 0) {
  // code * 4 is the byte offset: a high nibble shifts right by 2, a low nibble left by 2.
  const unsigned rotation = shift % 8 == 0 ? 2 : 30;
  const std::uint32_t first = __funnelshift_rc(word, next, shift & 24);
  const std::uint32_t second = __funnelshift_rc(word, next, (shift + 4) & 56);
  return {__funnelshift_rc(first, first, rotation) & EntryOffsets::bits,
          __funnelshift_rc(second, second, 32 - rotation) & EntryOffsets::bits};
}

inline constexpr int min_per_block = 32;  ///< Weights that share a scale.

/// `count` words from weight `first` on. The first one is at the start of a cache line of the
/// output, so that a warp writes whole cache lines. Fewer than 96 weights, at both ends together,
/// are in no word.
template <class Index>
struct Words {
  const std::uint32_t* codes = nullptr;  ///< Word i begins in codes[i]; 4-byte aligned.
  Index first = 0;
  Index count = 0;
  unsigned shift = 0;  ///< Word i begins this many bits into codes[i], and may end in the next.
  /// Whether every word is one aligned word of codes in one block, 32 words are in at most 8
  /// blocks, and a map of nested scales starts at a cache line.
  bool are_aligned = true;

  Words() = default;
  template <class Other>
  explicit Words(const Words<Other>& other)
      : codes(other.codes),
        first(static_cast<Index>(other.first)),
        count(static_cast<Index>(other.count)),
        shift(other.shift),
        are_aligned(other.are_aligned) {}

  /// The words that fill whole tiles of `tile_words` words.
  Words in_tiles_of(Index tile_words) const {
    Words tiles = *this;
    tiles.count -= count % tile_words;
    if (tiles.count == 0) tiles.first = 0;
    return tiles;
  }
};

/// A word lies inside the problem's codes: a first or last word that would reach outside is left
/// out. If words are not aligned, codes[count] can be read, too.
inline Words<std::int64_t> words_of(const Problem& problem) {
  constexpr std::uintptr_t line_bytes = 128, load_bytes = 4, bits_per_weight = 4;
  const auto output = reinterpret_cast<std::uintptr_t>(problem.output);
  const auto codes = reinterpret_cast<std::uintptr_t>(problem.codes);
  Words<std::int64_t> words;
  words.first = static_cast<std::int64_t>(-output % line_bytes / 2);
  const auto begin = [&] { return codes + static_cast<std::uintptr_t>(words.first) / 2; };
  const auto aligned_begin = [&] { return begin() / load_bytes * load_bytes; };
  if (aligned_begin() < codes) words.first += line_bytes / 2;
  words.codes = reinterpret_cast<const std::uint32_t*>(aligned_begin());
  words.shift =
      static_cast<unsigned>((begin() - aligned_begin()) * 8 +
                            static_cast<std::uintptr_t>(words.first) % 2 * bits_per_weight);
  const int apart = problem.block_size > min_per_block ? weights_per_word : min_per_block;
  words.are_aligned = words.shift == 0 && words.first % apart == 0 &&
                      reinterpret_cast<std::uintptr_t>(problem.nested.map) % line_bytes == 0;
  const auto end = codes + static_cast<std::uintptr_t>(problem.n + 1) / 2;
  const auto whole =
      static_cast<std::int64_t>(end - aligned_begin()) / static_cast<std::int64_t>(load_bytes);
  const auto left = (problem.n - words.first) / weights_per_word;
  const auto loadable = whole - (words.are_aligned ? 0 : 1);
  words.count = left < loadable ? left : loadable;
  if (words.count <= 0) words.count = words.first = 0;
  return words;
}

// Scales read in two steps with a barrier between them: loads from device memory before it, so that
// they are in flight together with the loads of codes, and loads from shared memory after it.
// Scales can be prefetched to L2 before either. They are loaded as codes are (`reads`). The
// compiler may move __ldg loads past the barrier and then waits once more, which slows small
// matrices.

/// A kernel calls `start` first, `fill` before its barrier and `wait` after it, with all threads of
/// a block. `Aligned`: whether the map starts at a cache line.
template <class Reader, bool Aligned>
struct StagedScales;

template <bool Aligned>
struct StagedScales<PlainScaleReader, Aligned> {
  struct Storage {};  ///< shared memory
  using Loaded = float;

  __device__ static void start(Storage&, const PlainScaleReader&) {}
  template <int Threads>
  __device__ static void fill(Storage&, const PlainScaleReader&) {}
  __device__ static void wait(Storage&) {}
  template <class Reads, class Index>
  __device__ static Loaded load(const Reads& reads, const PlainScaleReader& scales, Index block) {
    return reads.load(scales.absmax + block);
  }
  __device__ static float value(const Storage&, const PlainScaleReader&, Loaded loaded) {
    return loaded;
  }
  /// All threads together prefetch to L2 the scales of `weights` weights from `first` on, out of
  /// `n`.
  template <int Threads, class Index>
  __device__ static void prefetch(const PlainScaleReader& scales, Index first, unsigned weights,
                                  Index n) {
    prefetch_to_l2<Threads>(scales.absmax, first >> scales.shift, weights >> scales.shift,
                            n >> scales.shift);
  }
};

/// The map is copied to shared memory, so that a scale costs one access to device memory, not two.
/// An aligned map is copied before the first load by one bulk copy (compute capability 9.0), which
/// is slow if either address is not at the start of a cache line.
template <bool Aligned>
struct StagedScales<NestedScaleReader, Aligned> {
  struct Storage {
    alignas(128) float map[256];
    std::uint64_t arrived;
  };
  struct Loaded {
    std::uint8_t code = 0;
    float second_absmax = 0;
  };

#if __CUDA_ARCH__ >= 900
  static constexpr bool in_bulk = Aligned;
#else
  static constexpr bool in_bulk = false;
#endif

  __device__ static void start(Storage& storage, const NestedScaleReader& scales) {
    if (in_bulk && threadIdx.x == 0) {
      const std::uint32_t arrived = shared_address(&storage.arrived);
      expect_bytes(arrived, sizeof storage.map);
      bulk_load(shared_address(storage.map), scales.map, sizeof storage.map, arrived);
    }
  }
  template <int Threads>
  __device__ static void fill(Storage& storage, const NestedScaleReader& scales) {
    if constexpr (!in_bulk) {
#pragma unroll
      for (unsigned first = 0; first < 256; first += Threads) {
        const unsigned i = first + threadIdx.x;
        if (i < 256) storage.map[i] = __ldg(scales.map + i);
      }
    }
  }
  __device__ static void wait(Storage& storage) {
    if (in_bulk) await_bytes(shared_address(&storage.arrived));
  }
  template <class Reads, class Index>
  __device__ static Loaded load(const Reads& reads, const NestedScaleReader& scales, Index block) {
    return {reads.load(scales.codes + block),
            reads.load(scales.absmax + (block >> scales.second_shift))};
  }
  __device__ static float value(const Storage& storage, const NestedScaleReader& scales,
                                Loaded loaded) {
    return nested_scale(storage.map[loaded.code], loaded.second_absmax, scales.offset);
  }
  /// Only the codes: the other scales have 64 times fewer bytes.
  template <int Threads, class Index>
  __device__ static void prefetch(const NestedScaleReader& scales, Index first, unsigned weights,
                                  Index n) {
    prefetch_to_l2<Threads>(scales.codes, first >> scales.shift, weights >> scales.shift,
                            n >> scales.shift);
  }
};

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
