// The same matrices, made on the device from each element's place: what kernels are given, and the
// truth about outputs that are too large for a host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "experiments/transpose/matrix.hpp"

namespace reprolab::transpose {

/// Fills [spec.input().elements()] with the input, gaps included. Enqueues and returns.
void fill_input(std::uint32_t* input, const MatrixSpec& spec, std::uint64_t seed,
                cudaStream_t stream);

/// Fills [spec.output().elements()] with its transpose.
void fill_expected(std::uint32_t* expected, const MatrixSpec& spec, std::uint64_t seed,
                   cudaStream_t stream);

}  // namespace reprolab::transpose
