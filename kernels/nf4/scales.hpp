// Reads the scale of a quantization block, plain or nested.
#pragma once

#include <cstdint>

#include "kernels/nf4/format.hpp"
#include "kernels/nf4/problem.hpp"

namespace reprolab::nf4 {

/// fp32 scales as stored.
struct PlainScaleReader {
  const float* absmax;
  int shift;  ///< log2 of weights per scale

  explicit PlainScaleReader(const Problem& problem)
      : absmax(problem.absmax), shift(log2_exact(problem.block_size)) {}

  template <class Index>
  __device__ float block_scale(Index block) const {
    return __ldg(absmax + block);
  }
  template <class Index>
  __device__ float at(Index weight) const {
    return block_scale(weight >> shift);
  }
};

/// Scales that are themselves quantized; they are dequantized when they are read. The map's 1 KiB
/// stays in L1: a thread reads one entry for all of its weights or for a byte, so filling a copy in
/// shared memory would cost a block as many reads as it saves. staged_scales.cuh is for blocks that
/// handle more weights.
struct NestedScaleReader {
  const std::uint8_t* codes;
  const float* map;
  const float* absmax;
  float offset;
  int shift;         ///< log2 of weights per scale
  int second_shift;  ///< log2 of scales per second-level scale

  explicit NestedScaleReader(const Problem& problem)
      : codes(problem.nested.codes),
        map(problem.nested.map),
        absmax(problem.nested.absmax),
        offset(problem.nested.offset),
        shift(log2_exact(problem.block_size)),
        second_shift(log2_exact(problem.nested.block_size)) {}

  template <class Index>
  __device__ float block_scale(Index block) const {
    return nested_scale(__ldg(map + __ldg(codes + block)), __ldg(absmax + (block >> second_shift)),
                        offset);
  }
  template <class Index>
  __device__ float at(Index weight) const {
    return block_scale(weight >> shift);
  }
};

}  // namespace reprolab::nf4
