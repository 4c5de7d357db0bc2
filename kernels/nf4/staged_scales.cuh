// Scales read in two steps, for kernels with a barrier between them: what is in device memory
// before it, so that these loads are in flight with the codes', and what is in shared memory after
// it.
#pragma once

#include <cstdint>

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
  template <class Index>
  __device__ static Loaded load(const PlainScaleReader& scales, Index weight) {
    return scales.at(weight);
  }
  __device__ static float value(const Storage&, const PlainScaleReader&, Loaded loaded) {
    return loaded;
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
  template <class Index>
  __device__ static Loaded load(const NestedScaleReader& scales, Index weight) {
    const Index block = weight >> scales.shift;
    return {__ldg(scales.codes + block), __ldg(scales.absmax + (block >> scales.second_shift))};
  }
  __device__ static float value(const Storage& storage, const NestedScaleReader& scales,
                                Loaded loaded) {
    return nested_scale(storage.map[loaded.code], loaded.second_absmax, scales.offset);
  }
};

}  // namespace reprolab::nf4
