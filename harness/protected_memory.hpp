// Memory that no kernel may write: inputs, the guards after outputs, and the data that outputs are
// compared with. Writing there would invalidate the rows of other kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

#include "harness/errors.hpp"
#include "profiling/cuda_check.hpp"

namespace reprolab {

class ProtectedMemory {
 public:
  /// A range of device memory, of any alignment.
  struct Region {
    const void* data = nullptr;
    std::uint64_t bytes = 0;
  };

  /// Stores a checksum of the regions' contents after the work that is enqueued on `stream`.
  ProtectedMemory(const std::vector<Region>& regions, cudaStream_t stream);

  /// Whether the contents have changed since; waits for `stream`.
  bool changed() const { return checksum() != original_; }

  /// Throws KernelCrashed for that kernel if they have.
  void require_unchanged(const std::string& kernel) const {
    if (changed()) throw KernelCrashed(kernel, "changed memory that is not its output");
  }

 private:
  std::uint64_t checksum() const;

  cudaStream_t stream_;
  unsigned count_ = 0, blocks_ = 1;
  profiling::DeviceBuffer regions_;
  profiling::DeviceBuffer sum_{sizeof(std::uint64_t)};
  std::uint64_t original_ = 0;
};

}  // namespace reprolab
