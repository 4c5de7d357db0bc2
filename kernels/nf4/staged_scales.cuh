// Scales read in two steps, for kernels with a barrier between them: what is in device memory
// before it, so that these loads are in flight with the codes', and what is in shared memory after
// it. L2 can be asked for them before either. They are read in the way `reads` that codes are. Not
// every way holds its place: the compiler may move loads by __ldg behind the barrier, and waits
// there once more, which small matrices notice.
#pragma once

#include <cstdint>

#include "common/access.cuh"
#include "kernels/nf4/scales.hpp"

namespace reprolab::nf4 {

template <class Reader>
struct StagedScales;

template <>
struct StagedScales<PlainScaleReader> {
  struct Storage {};  ///< shared memory
  using Loaded = float;

  template <int Threads>
  __device__ static void fill(Storage&, const PlainScaleReader&) {}
  template <class Reads, class Index>
  __device__ static Loaded load(const Reads& reads, const PlainScaleReader& scales, Index block) {
    return reads.load(scales.absmax + block);
  }
  __device__ static float value(const Storage&, const PlainScaleReader&, Loaded loaded) {
    return loaded;
  }
  /// Of all threads together: asks L2 for the scales of `weights` from `first` on, out of `n`.
  template <int Threads, class Index>
  __device__ static void prefetch(const PlainScaleReader& scales, Index first, unsigned weights,
                                  Index n) {
    prefetch_to_l2<Threads>(scales.absmax, first >> scales.shift, weights >> scales.shift,
                            n >> scales.shift);
  }
};

/// The map is copied to shared memory, so that a scale costs one trip to device memory, not two.
template <>
struct StagedScales<NestedScaleReader> {
  struct Storage {
    float map[256];
  };
  struct Loaded {
    std::uint8_t code = 0;
    float second_absmax = 0;
  };

  template <int Threads>
  __device__ static void fill(Storage& storage, const NestedScaleReader& scales) {
#pragma unroll
    for (unsigned first = 0; first < 256; first += Threads) {
      const unsigned i = first + threadIdx.x;
      if (i < 256) storage.map[i] = __ldg(scales.map + i);
    }
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
