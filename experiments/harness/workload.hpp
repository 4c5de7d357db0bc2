// A problem made real on the device: the one interface between a family of kernels and everything
// that verifies, times and reports. Nothing here knows what the kernels compute.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "experiments/harness/result_file.hpp"
#include "kernels/registry.hpp"
#include "reference/compare.hpp"

namespace reprolab {

/// What a problem is, before anything is allocated for it.
struct ProblemFacts {
  std::string name;              ///< Unique within its family; shows in tables.
  nlohmann::json description;    ///< The record's "problem".
  std::int64_t elements = 0;     ///< Of the output.
  int element_bytes = 0;         ///< 2 or 4.
  std::uint64_t bytes_read = 0;  ///< By one launch, everything counted once.
  std::uint64_t bytes_written = 0;

  std::uint64_t output_bytes() const {
    return static_cast<std::uint64_t>(elements) * static_cast<std::uint64_t>(element_bytes);
  }
};

/// One launch's memory, for the ceilings that move the same bytes.
struct Traffic {
  const void* read = nullptr;
  void* written = nullptr;
};

class Workload {
 public:
  virtual ~Workload() = default;

  virtual const ProblemFacts& facts() const = 0;
  /// Physically distinct copies of inputs and output, to rotate over.
  virtual int slots() const = 0;
  virtual Support supports(const std::string& kernel) const = 0;
  virtual cudaError_t launch(const std::string& kernel, int slot, cudaStream_t stream) const = 0;
  virtual void* output(int slot) const = 0;
  virtual Traffic traffic(int slot) const = 0;

  /// The reference's output, on the host; empty where it is too large for a host: write_expected()
  /// alone has it then, and a kernel with a declared deviation is not run.
  virtual std::span<const std::byte> expected() const = 0;
  /// Writes the reference's output to device memory; without an override it is copied there.
  virtual void write_expected(void* to, cudaStream_t stream) const;
  /// Overwrites `output` (host) with what a deviating kernel is declared to write.
  virtual void emulate(const std::string& kernel, std::span<std::byte> output) const = 0;
  /// One line on a comparison that found a mismatch; the bits are those of the first.
  virtual std::string describe(const reference::Comparison& found, std::uint32_t expected,
                               std::uint32_t actual) const = 0;
};

/// What the registry of a family knows of its kernels, by name.
template <class Problem>
std::vector<VariantInfo> registered_variants() {
  std::vector<VariantInfo> variants;
  for (const auto& [name, kernel] : Registry<Problem>::instance().kernels()) {
    variants.push_back({name, kernel.peer ? Role::peer : Role::kernel, kernel.lineage,
                        kernel.source_file, kernel.contract.deviation});
  }
  return variants;
}

}  // namespace reprolab
