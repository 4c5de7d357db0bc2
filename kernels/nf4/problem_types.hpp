// Dispatch from a problem's run-time properties to the types that a kernel is compiled for.
#pragma once

#include <cstdint>

#include "kernels/nf4/scales.hpp"

namespace reprolab::nf4 {

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
