// State other than memory that a kernel must restore: settings of the device, of its context, of
// the streams and of the calling thread. A kernel that changes one would be measured under other
// conditions than the other kernels, and would change theirs.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace reprolab {

struct DeviceSetting {
  std::string name;  ///< As in CUDA, such as "cudaLimitPersistingL2CacheSize".
  std::string unit;  ///< "bytes", or empty.
  /// The value now; nothing if this device or driver has no such setting: then it is not watched.
  std::function<std::optional<std::uint64_t>()> read;
};

/// Every setting that CUDA lets a program read, of the current device and for launches on `stream`.
std::vector<DeviceSetting> device_settings(cudaStream_t stream);

class DeviceState {
 public:
  /// Remembers the settings as they are now: the harness's own, before any kernel has run.
  explicit DeviceState(const std::vector<DeviceSetting>& settings);
  explicit DeviceState(cudaStream_t stream) : DeviceState(device_settings(stream)) {}

  /// Which settings differ from the remembered ones: "changed the device: NAME from 0 to 5 bytes";
  /// empty if none does. Takes a few microseconds of the host and no work of the GPU.
  std::string changes() const;

  /// Makes lines of L2 that a kernel has marked as persisting ordinary ones. CUDA cannot tell
  /// whether there are any.
  void reset_persisting_lines() const;

 private:
  struct Known {
    DeviceSetting setting;
    std::uint64_t before = 0;
  };
  std::vector<Known> known_;
};

}  // namespace reprolab
