// One execution of one kernel, copy or fill, as CUPTI's activity records describe it, and sums over
// many.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprolab::profiling {

struct KernelActivity {
  std::string name{};  ///< Demangled; "copy" or "fill" if it is no kernel.
  bool is_kernel = true;
  std::uint64_t start_ns = 0;  ///< All records of a process share one clock.
  std::uint64_t end_ns = 0;
  /// Id of the API call that launched it; a graph's kernels share one.
  std::uint32_t correlation_id = 0;
  std::optional<std::uint64_t> tag{};  ///< Tag of the innermost ScopedTag around the launch.
  std::array<std::int32_t, 3> grid{};
  std::array<std::int32_t, 3> block{};
  std::uint32_t registers_per_thread = 0;
  std::int32_t static_shared_bytes = 0;
  std::int32_t dynamic_shared_bytes = 0;
  /// How many of its blocks fit on a multiprocessor; none if that is not known.
  std::optional<int> blocks_per_multiprocessor{};

  double duration_us() const { return 1e-3 * static_cast<double>(end_ns - start_ns); }
};

/// Totals over kernels that belong together.
struct ActivitySum {
  std::size_t kernels = 0;
  double busy_us = 0;  ///< Sum of the durations; kernels that overlap count twice.
  std::uint64_t first_ns = 0, last_ns = 0;  ///< First start and last end.

  double span_us() const { return 1e-3 * static_cast<double>(last_ns - first_ns); }
};

ActivitySum sum(const std::vector<KernelActivity>& kernels);

/// Resident blocks per multiprocessor, from what a launch needs, as the toolkit's occupancy
/// calculator (cuda_occupancy.h) gives them for one barrier per block; none if it does not know the
/// device.
std::optional<int> blocks_per_multiprocessor(const KernelActivity& kernel,
                                             const cudaDeviceProp& device);

}  // namespace reprolab::profiling
