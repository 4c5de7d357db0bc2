// Nested scales as in calls of bitsandbytes' products: the offset is in device memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace reprolab::dropin {

inline constexpr int scales_per_second =
    256;  ///< The block size of second-level scales in bitsandbytes.

/// Writes `count` fp32 scales: round(map[codes[i]] * absmax[i / scales_per_second]) + *offset.
cudaError_t decode_nested_scales(const std::uint8_t* codes, const float* map, const float* absmax,
                                 const float* offset, float* scales, std::int64_t count,
                                 cudaStream_t stream);

/// Success if the library has code for the current device, otherwise CUDA's error.
cudaError_t has_code();

}  // namespace reprolab::dropin
