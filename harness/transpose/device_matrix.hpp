// The same matrices, computed on the device from each element's place: the kernels' inputs, and the
// expected outputs that are too large for a host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "harness/transpose/matrix.hpp"

namespace reprolab::transpose {

/// Fills `input`, [spec.input().elements()], including gaps. Enqueues and returns.
void fill_input(std::uint32_t* input, const MatrixSpec& spec, std::uint64_t seed,
                cudaStream_t stream);

/// Fills `expected`, [spec.output().elements()], with the transpose of that input.
void fill_expected(std::uint32_t* expected, const MatrixSpec& spec, std::uint64_t seed,
                   cudaStream_t stream);

}  // namespace reprolab::transpose
