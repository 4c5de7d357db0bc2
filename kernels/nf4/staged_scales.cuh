// Scales read in two steps, for kernels with a barrier between them: what is in device memory
// before it, so that these loads are in flight with the codes', and what is in shared memory after
// it. L2 can be asked for them before either. They are read in the way `reads` that codes are. Not
// every way holds its place: the compiler may move loads by __ldg past the barrier, and waits
// there once more, which small matrices notice.
#pragma once

#include <cstdint>

#include "common/access.cuh"
#include "common/bulk_copy.cuh"
#include "kernels/nf4/scales.hpp"

namespace reprolab::nf4 {

/// A kernel calls `start` first, `fill` before its barrier and `wait` after it, with all threads of
/// a block. `Aligned`: whether a map begins a cache line.
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
  /// All threads together ask L2 for the scales of `weights` from `first` on, out of `n`.
  template <int Threads, class Index>
  __device__ static void prefetch(const PlainScaleReader& scales, Index first, unsigned weights,
                                  Index n) {
    prefetch_to_l2<Threads>(scales.absmax, first >> scales.shift, weights >> scales.shift,
                            n >> scales.shift);
  }
};

/// The map is copied to shared memory, so that a scale costs one trip to device memory, not two. An
/// aligned one is on its way before the first load: as one bulk copy (compute capability 9.0),
/// which is slow where either address does not begin a cache line.
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
  /// The codes alone: the other scales are 64 times fewer bytes.
  template <int Threads, class Index>
  __device__ static void prefetch(const NestedScaleReader& scales, Index first, unsigned weights,
                                  Index n) {
    prefetch_to_l2<Threads>(scales.codes, first >> scales.shift, weights >> scales.shift,
                            n >> scales.shift);
  }
};

}  // namespace reprolab::nf4
