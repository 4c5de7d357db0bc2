// The interface between verify and the kernels, so that the program builds with and without CUDA:
// kernel_checks_cuda.cpp runs every registered kernel, kernel_checks_none.cpp reports why none can
// run.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/errors.hpp"
#include "harness/outcome.hpp"
#include "harness/worker.hpp"
#include "reference/compare.hpp"
#include "reference/nf4/quantized_tensor.hpp"

namespace reprolab::verify {

/// The result of one kernel on one tensor.
struct KernelResult {
  std::string kernel;
  Outcome outcome = Outcome::not_verified;
  std::string reason;                ///< One line; empty when bit_exact.
  reference::Comparison comparison;  ///< Against the reference's output; set for a mismatch.
  /// [n] bits that the kernel wrote; set for a mismatch, valid until the report returns.
  std::span<const std::uint16_t> actual;
};

/// The kernels of this build on this machine.
struct KernelChecks {
  using Report = std::function<void(const KernelResult&)>;

  std::string unavailable{};         ///< Why no kernel can run here; empty when they can.
  std::vector<std::string> names{};  ///< Selected kernels; none when `unavailable`.
  /// Runs the kernels named in `selected` on `tensor`, each within its own time limit, and reports
  /// each once. `expected` [tensor.n]: the reference's output. From its first call on, the calling
  /// process is the one that uses the GPU.
  std::function<void(
      const reference::QuantizedTensor& tensor, std::span<const std::uint16_t> expected,
      const std::vector<std::string>& selected, const Watchdog& watchdog, const Report& report)>
      run{};
};

/// The kernels that `pattern` selects (selects() in selection.hpp), those of the libraries `peers`
/// among them. Throws UsageError for a pattern that selects nothing, a peer that cannot be loaded,
/// or a selection that this build or machine cannot run.
KernelChecks find_kernels(const std::string& pattern, const std::vector<std::string>& peers);

}  // namespace reprolab::verify
