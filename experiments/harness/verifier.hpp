// The verdict on a kernel's output: before it is timed, and again after.
#pragma once

#include <string>
#include <vector>

#include "experiments/harness/device_compare.hpp"
#include "experiments/harness/workload.hpp"

namespace reprolab {

struct Verification {
  Outcome outcome = Outcome::not_verified;
  std::string reason{};
  /// With the reference, of a mismatch and of a declared deviation; equal for a kernel that does
  /// not deviate as declared.
  reference::Comparison found{};
};

/// Verifies the kernels of one workload. Every comparison is over the whole output, in bits, and
/// outputs are poisoned first.
class Verifier {
 public:
  /// `comparison` carries the proof of itself; the host's comparison must be proven by
  /// reference::prove_comparison().
  Verifier(const Workload& workload, const DeviceComparison& comparison, cudaStream_t stream);

  /// Launches into every slot. Brings slot 0 back and compares it on the host with the reference,
  /// or with what the kernel is declared to produce, and the slots on the device; where the host
  /// has no reference, all on the device.
  Verification verify(const VariantInfo& variant);

  /// Compares, on the device, what `slots` hold after their last launches; nothing is launched.
  Verification verify_again(const VariantInfo& variant, int slots);

  /// The same for one output that lies elsewhere on the device.
  Verification judge_on_device(const VariantInfo& variant, const void* output);

  /// Fills the outputs of the first `slots` slots with poison.
  void poison(int slots) const;

  /// The output that was brought back last, as for a mismatch.
  std::span<const std::byte> actual() const { return actual_; }

 private:
  Verification run(const VariantInfo& variant, int slot) const;
  Verification judge_on_host(const VariantInfo& variant);
  const void* wanted_on_device(const VariantInfo& variant);
  std::span<const std::byte> wanted(const VariantInfo& variant);
  std::span<const std::byte> bring_back(const void* output);
  std::uint32_t device_bits(const void* array, std::int64_t index) const;

  const Workload& workload_;
  const DeviceComparison& comparison_;
  cudaStream_t stream_;
  profiling::DeviceBuffer expected_;
  std::vector<std::byte> actual_;  ///< The output brought back last.
  /// What the deviating kernel asked for last is declared to produce, on the host and the device.
  std::string declared_by_;
  std::vector<std::byte> declared_;
  profiling::DeviceBuffer declared_on_device_;
};

/// Bitwise comparison on the host of elements of 2 or 4 bytes.
reference::Comparison compare_on_host(std::span<const std::byte> expected,
                                      std::span<const std::byte> actual, int element_bytes);

}  // namespace reprolab
