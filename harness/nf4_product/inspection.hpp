// Checks of a verified product kernel that its outputs do not show: whether it repeats its sums,
// whether a row depends on the batch that it is in, and which weights it multiplies by.
#pragma once

#include "harness/device_compare.hpp"
#include "harness/workload.hpp"
#include "kernels/nf4_product/problem.hpp"

namespace reprolab::nf4_product {

inline constexpr int runs_that_repeat = 20;

/// Launches `kernel` on `problem`, whose outputs were found to be right, and with other
/// activations; it writes to memory that is made for that, not to `problem.output`. In `numbers`:
///   rows_different_alone  of a batch, how many rows differ in any bit from what the kernel gives
///                         for the row alone; left out where it takes no single row, or there is
///                         but one.
/// and if `weights` is not null, those of the problem as dequantization writes them (device
/// memory),
///   weights_different     how many the kernel multiplies by that are others, by one-hot rows for
///                         all columns; zeros of either sign are the same;
///   weights_max_ulps      by how much, at most.
/// Broken is the contract of a kernel that does not give the same bits 20 times, and of one that
/// declares to be independent of the batch, or to multiply by the dequantized weights, and is not
/// so.
Findings inspect_product(const VariantInfo& kernel, const Problem& problem, const void* weights,
                         const DeviceComparison& comparison, cudaStream_t stream);

}  // namespace reprolab::nf4_product
