// Scales read in two steps with a barrier between them: loads from device memory before it, so that
// they are in flight together with the loads of codes, and loads from shared memory after it.
// Scales can be prefetched to L2 before either. They are loaded as codes are (`reads`). The
// compiler may move __ldg loads past the barrier and then waits once more, which slows small
// matrices.
#pragma once

#include <cstdint>

#include "kernels/access.cuh"
#include "kernels/bulk_copy.cuh"
#include "kernels/nf4/scales.hpp"

namespace reprolab::nf4 {

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

}  // namespace reprolab::nf4
