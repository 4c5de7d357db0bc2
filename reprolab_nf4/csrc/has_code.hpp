// Whether the library was built for a device.
#pragma once

#include <cuda_runtime_api.h>

namespace reprolab::dropin {

/// Success if the library has code for the current device, otherwise CUDA's error.
cudaError_t has_code();

}  // namespace reprolab::dropin
