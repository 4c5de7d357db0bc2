// Which weights a kernel multiplies by: one-hot rows select them, and each is compared with the
// bits that dequantization gives. On the device, because there are as many as the matrix has
// weights.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

#include "kernels/nf4/problem.hpp"

namespace reprolab::nf4_product {

struct WeightDifferences {
  std::int64_t weights = 0;    ///< That differ; zeros of either sign are the same.
  std::uint32_t max_ulps = 0;  ///< The largest distance; no_distance of a NaN.
};

/// A matrix whose columns are asked for.
struct Columns {
  std::int64_t m = 0;  ///< Columns per launch: rows of activations.
  std::int64_t n = 0, k = 0;
  nf4::OutputType type = nf4::OutputType::fp16;
  const void* weights = nullptr;  ///< [n][k] of `type`, in device memory.
  void* input = nullptr;          ///< [m][k]; overwritten.
  void* output = nullptr;         ///< [m][n]; poisoned before each launch.
};

/// Calls `launch`, which is to enqueue the product of `input` to `output`, until every one of the k
/// columns was selected once. Waits for `stream`.
WeightDifferences compare_weights(const Columns& columns, const std::function<void()>& launch,
                                  cudaStream_t stream);

}  // namespace reprolab::nf4_product
