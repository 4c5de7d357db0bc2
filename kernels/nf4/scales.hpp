// The scale of a quantization block, plain or nested; and the dispatch from a problem's run-time
// properties to the types that a kernel is compiled for.
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
/// shared memory would cost a block as many reads as it saves. StagedScales (streaming.cuh) is for
/// blocks that handle more weights.
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

/// Longest problem whose weights can be counted in 32 bits, with room for a tile past the end.
inline constexpr std::int64_t longest_for_32_bits = (std::int64_t{1} << 32) - (1 << 16);

/// Calls `launch.operator()<Index, ScaleReader, Out>()` for the problem's length (32 or 64 bits),
/// its kind of scales (plain or nested) and its output type (fp16 or bf16).
template <class NestedReader = NestedScaleReader, class Launch>
cudaError_t with_problem_types(const Problem& problem, Launch launch) {
  const auto with_output = [&]<class Index, class ScaleReader>() {
    return problem.output_type == OutputType::fp16
               ? launch.template operator()<Index, ScaleReader, __half>()
               : launch.template operator()<Index, ScaleReader, __nv_bfloat16>();
  };
  const auto with_scales = [&]<class Index>() {
    return problem.is_nested() ? with_output.template operator()<Index, NestedReader>()
                               : with_output.template operator()<Index, PlainScaleReader>();
  };
  return problem.n <= longest_for_32_bits ? with_scales.template operator()<std::uint32_t>()
                                          : with_scales.template operator()<std::uint64_t>();
}

}  // namespace reprolab::nf4
