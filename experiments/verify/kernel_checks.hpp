// What verify asks of the kernels, so that the program builds with and without CUDA:
// kernel_checks_cuda.cpp runs every registered kernel, kernel_checks_none.cpp says why it cannot.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "experiments/harness/errors.hpp"
#include "experiments/harness/outcome.hpp"
#include "reference/bnb_checkpoint.hpp"
#include "reference/compare.hpp"

namespace reprolab::verify {

/// Which kernels to run.
struct KernelSelection {
  std::string pattern;             ///< Regular expression on names; empty: all.
  std::vector<std::string> peers;  ///< Libraries to load and register as kernels.
};

/// How one kernel did on one tensor.
struct KernelResult {
  std::string kernel;
  Outcome outcome = Outcome::not_verified;
  std::string reason;           ///< One line; empty when bit_exact.
  reference::Comparison found;  ///< Against the reference's output; set for a mismatch.
  /// [n] bits that the kernel wrote; set for a mismatch, valid until the report returns.
  std::span<const std::uint16_t> actual;
};

/// The kernels of this build on this machine.
class KernelChecks {
 public:
  using Report = std::function<void(const KernelResult&)>;

  virtual ~KernelChecks() = default;

  /// Why no kernel can run here ("built without CUDA"); empty when they can.
  virtual std::string unavailable() const = 0;

  /// Runs each selected kernel on `tensor` and reports each once, in the order of their names.
  /// `expected` [tensor.n]: the reference's output. Never called when `unavailable()`.
  virtual void check(const reference::QuantizedTensor& tensor,
                     std::span<const std::uint16_t> expected, const Report& report) = 0;
};

/// Throws UsageError for a bad pattern, a pattern that selects nothing, a peer that cannot be
/// loaded, or a selection that this build or machine cannot serve. `threads`: for comparisons.
std::unique_ptr<KernelChecks> make_kernel_checks(const KernelSelection& selection, int threads);

}  // namespace reprolab::verify
