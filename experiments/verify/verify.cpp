#include "experiments/verify/verify.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <new>
#include <string>
#include <vector>

#include "experiments/verify/dump.hpp"
#include "experiments/verify/progress.hpp"
#include "experiments/verify/summary.hpp"
#include "reference/quantizer_check.hpp"

namespace reprolab::verify {
namespace {

constexpr std::uint64_t progress_from_bytes = 256'000'000;

using Bits = std::span<const std::uint16_t>;

/// One run over one file.
class Run {
 public:
  explicit Run(const Options& options)
      : options_(options),
        checkpoint_(options.file),
        kernels_(make_kernel_checks(options.kernels, options.threads)),
        progress_(total_code_bytes(), checkpoint_.file().size_bytes() > progress_from_bytes) {}

  ExitStatus all() {
    fmt::print("{}: {} quantized tensors\n", options_.file.string(), checkpoint_.tensors().size());
    if (const std::string reason = kernels_->unavailable(); !reason.empty()) {
      fmt::print("kernels: none run ({})\n", reason);
    }
    for (const auto& info : checkpoint_.tensors()) {
      one(info);
      progress_.advance(checkpoint_.file().find(info.name)->size_bytes);
    }
    progress_.clear();
    fmt::print("summary, in tensors:\n{}", summary_.text());
    if (!summary_.any_comparison()) {
      fmt::print("dequantized by the reference; nothing to compare with\n");
    }
    return summary_.any_failure() ? exit_wrong_output : exit_verified;
  }

 private:
  std::uint64_t total_code_bytes() const {
    std::uint64_t total = 0;
    for (const auto& info : checkpoint_.tensors()) {
      total += checkpoint_.file().find(info.name)->size_bytes;
    }
    return total;
  }

  void one(const reference::QuantizedTensorInfo& info) {
    const auto tensor = checkpoint_.load(info, options_.threads);
    const auto output = reference::dequantize(tensor, options_.threads);
    progress_.clear();
    fmt::print("{}: [{}] {}, blocks of {}{}\n", tensor.name, fmt::join(tensor.shape, ", "),
               name(tensor.type), tensor.block_size, tensor.nested ? ", nested scales" : "");
    compare_with_stored(info, tensor, output);
    check_source(info, tensor);
    if (kernels_->unavailable().empty()) run_kernels(tensor, output);
  }

  void compare_with_stored(const reference::QuantizedTensorInfo& info,
                           const reference::QuantizedTensor& tensor, Bits output) {
    if (info.dequantized == nullptr) {
      note("reference", Outcome::not_verified, "the file holds no .dequantized to compare with");
      return;
    }
    const auto stored = checkpoint_.load_bits(*info.dequantized);
    const auto found = reference::compare_bits(stored, output, options_.threads);
    if (found.equal()) {
      note("reference", Outcome::bit_exact, "");
    } else {
      note_mismatch("reference", tensor, found, stored, output);
    }
  }

  void check_source(const reference::QuantizedTensorInfo& info,
                    const reference::QuantizedTensor& tensor) {
    if (info.source == nullptr) return;
    const auto source = checkpoint_.load_bits(*info.source);
    const auto check = reference::check_quantizer(tensor, source, options_.threads);
    const Outcome outcome = check.equal()   ? Outcome::bit_exact
                            : check.wrong() ? Outcome::mismatch
                                            : Outcome::deviation_as_declared;
    note("quantizer", outcome, describe(check));
  }

  void run_kernels(const reference::QuantizedTensor& tensor, Bits expected) {
    kernels_->check(tensor, expected, [&](const KernelResult& result) {
      if (result.outcome == Outcome::mismatch && !result.found.equal()) {
        note_mismatch(result.kernel, tensor, result.found, expected, result.actual);
      } else {
        note(result.kernel, result.outcome, result.reason);
      }
    });
  }

  void note(const std::string& subject, Outcome outcome, const std::string& reason) {
    summary_.add(subject, outcome, reason);
    if (is_failure(outcome)) fmt::print("  {}: {}: {}\n", subject, name(outcome), reason);
  }

  void note_mismatch(const std::string& subject, const reference::QuantizedTensor& tensor,
                     const reference::Comparison& found, Bits expected, Bits actual) {
    note(subject, Outcome::mismatch,
         describe_mismatch(found, tensor.n, reference::view_of(tensor),
                           expected[static_cast<std::size_t>(found.first_mismatch)],
                           actual[static_cast<std::size_t>(found.first_mismatch)]));
    if (options_.dump_directory) {
      dump_mismatch(*options_.dump_directory, tensor, subject, expected, actual);
    }
  }

  const Options& options_;
  reference::BnbCheckpoint checkpoint_;
  std::unique_ptr<KernelChecks> kernels_;
  Progress progress_;
  Summary summary_;
};

}  // namespace

ExitStatus verify_checkpoint(const Options& options) {
  reference::prove_comparison(options.threads);
  try {
    return Run(options).all();
  } catch (const reference::InvalidFile& error) {
    throw UsageError(error.what());
  } catch (const std::bad_alloc&) {
    throw UsageError(
        fmt::format("{}: not enough memory for its largest tensor; verify it on a "
                    "machine with more",
                    options.file.string()));
  }
}

}  // namespace reprolab::verify
