// How many blocks of a kernel fit on a multiprocessor at once, from what a launch needs.
#pragma once

#include <cuda_runtime_api.h>

#include <optional>

#include "profiling/kernel_activity.hpp"

namespace reprolab::profiling {

/// Resident blocks per multiprocessor, as the toolkit's occupancy calculator (cuda_occupancy.h)
/// gives them for one barrier per block; none if it does not know the device.
std::optional<int> blocks_per_multiprocessor(const KernelActivity& kernel,
                                             const cudaDeviceProp& device);

}  // namespace reprolab::profiling
