// Checks of a verified matmul kernel beyond its outputs: whether it is deterministic, whether a row
// depends on its batch, and which weights it multiplies by.
#pragma once

#include "harness/device_compare.hpp"
#include "harness/workload.hpp"
#include "kernels/nf4_product/problem.hpp"

namespace reprolab::nf4_product {

inline constexpr int runs_that_repeat = 20;

/// Launches `kernel` on `problem`, whose outputs were correct, and with other activations. Outputs
/// are written to separate memory, not to `problem.output`. Sets in `numbers`:
///   rows_different_alone  the number of rows that differ in any bit from the same row as a batch
///   of
///                         one; absent where M is 1, or the kernel does not support M = 1.
/// and if `weights`, the problem's dequantized weights in device memory, is not null,
///   weights_different     the number of weights that differ from those that the kernel multiplies
///                         by, found with one-hot rows for all columns; -0 equals 0;
///   weights_max_ulps      their largest distance.
/// The contract is broken if 20 launches do not give the same bits, or if the kernel falsely
/// declares that it does not depend on the batch, or multiplies by the dequantized weights.
Findings inspect_product(const VariantInfo& kernel, const Problem& problem, const void* weights,
                         const DeviceComparison& comparison, cudaStream_t stream);

}  // namespace reprolab::nf4_product
