// State other than memory that a kernel must restore: settings of the device, of its context, of
// the streams and of the calling thread. A kernel that changes one would be measured under
// different conditions than other kernels, and would change their conditions.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprolab {

struct DeviceSetting {
  std::string name;  ///< As in CUDA, such as "cudaLimitPersistingL2CacheSize".
  /// The current value; nothing if this device or driver lacks the setting, which is then not
  /// checked.
  std::function<std::optional<std::uint64_t>()> read;
};

/// The settings of the current device, and of launches on `stream`, that a measurement depends on.
std::vector<DeviceSetting> device_settings(cudaStream_t stream);

class DeviceState {
 public:
  /// Saves the current settings, before any kernel has run.
  explicit DeviceState(cudaStream_t stream);

  /// The settings that differ from the saved ones: "changed the device: NAME from 0 to 5";
  /// empty if none does. Takes a few microseconds on the host and none on the GPU.
  std::string changes() const;

  /// Resets L2 lines that a kernel has marked as persisting. CUDA cannot report whether there are
  /// any.
  void reset_persisting_lines() const;

 private:
  std::vector<std::pair<DeviceSetting, std::uint64_t>> known_;  ///< With the value before.
};

}  // namespace reprolab
