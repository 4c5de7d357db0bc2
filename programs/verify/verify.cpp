#include "programs/verify/verify.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <new>
#include <string>
#include <vector>

#include "common/printable.hpp"
#include "common/progress.hpp"
#include "programs/verify/dump.hpp"
#include "programs/verify/summary.hpp"
#include "reference/checkpoint/bnb_checkpoint.hpp"
#include "reference/mismatch_report.hpp"
#include "reference/nf4/quantizer_check.hpp"

namespace reprolab::verify {
namespace {

constexpr double bytes_per_weight = 5;  // of the largest tensor: codes, scales and two outputs
constexpr std::uint64_t progress_from_bytes = 256'000'000;
constexpr std::chrono::milliseconds turn_limit{20'000};  // of a kernel, on one tensor

using Bits = std::span<const std::uint16_t>;

/// Calls `body`; an invalid file or a lack of memory becomes a UsageError.
template <class Body>
auto as_usage_error(const Options& options, Body body) {
  try {
    return body();
  } catch (const reference::InvalidFile& error) {
    throw UsageError(error.what());
  } catch (const std::bad_alloc&) {
    throw UsageError(
        fmt::format("{}: not enough memory for its headers or its largest tensor; verify it on a "
                    "machine with more",
                    reference::describe_paths(options.files)));
  }
}

/// A run over a checkpoint. The kernels run in a worker process, which a kernel may crash.
class Run {
 public:
  explicit Run(const Options& options)
      : options_(options),
        checkpoint_(options.files),
        kernels_(find_kernels(options.kernel, options.peers)),
        progress_("verify", total_code_bytes(), fmt::format("{:.1f} GB", total_code_bytes() * 1e-9),
                  checkpoint_.shards().size_bytes() > progress_from_bytes),
        worker_(
            [this](const Worker::Json& request, const Watchdog& watchdog) {
              return as_usage_error(options_, [&] { return check(request, watchdog); });
            },
            kernels_.unavailable.empty() ? std::optional(turn_limit) : std::nullopt) {}

  ExitStatus all() {
    const std::size_t files = checkpoint_.shards().files().size();
    if (has_nothing_to_compare()) print_that_nothing_is_proved();
    fmt::print("{}: {} quantized tensors{}\n", reference::describe_paths(options_.files),
               checkpoint_.tensors().size(), files > 1 ? fmt::format(" in {} files", files) : "");
    if (!kernels_.unavailable.empty()) {
      fmt::print("kernels: none run ({})\n", printable(kernels_.unavailable));
    }
    if (options_.dry_run) return plan();
    for (std::size_t i = 0; i < checkpoint_.tensors().size(); ++i) {
      one(i);
      progress_.advance(code_bytes_of(checkpoint_.tensors()[i]));
    }
    progress_.clear();
    if (summary_.proves_nothing() && !has_nothing_to_compare()) print_that_nothing_is_proved();
    fmt::print("summary, in tensors:\n{}{}", summary_.outcomes(),
               summary_.coverage(checkpoint_.other_tensors()));
    return summary_.status();
  }

 private:
  std::uint64_t total_code_bytes() const {
    std::uint64_t total = 0;
    for (const auto& info : checkpoint_.tensors()) total += code_bytes_of(info);
    return total;
  }

  static std::uint64_t code_bytes_of(const reference::QuantizedTensorInfo& info) {
    return static_cast<std::uint64_t>(reference::code_bytes(info.state.elements));
  }

  /// There are neither kernels nor stored outputs nor quantizer inputs.
  bool has_nothing_to_compare() const {
    return kernels_.names.empty() &&
           std::ranges::all_of(checkpoint_.tensors(), [](const auto& info) {
             return info.dequantized == nullptr && info.source == nullptr;
           });
  }

  static void print_that_nothing_is_proved() {
    fmt::print(
        "nothing could be proved here: the checkpoint holds no outputs to compare with, and no "
        "kernel ran; verify it on a machine with a GPU, by a build with CUDA\n");
  }

  ExitStatus plan() const {
    std::int64_t weights = 0, largest = 0;
    for (const auto& info : checkpoint_.tensors()) {
      weights += info.state.elements;
      largest = std::max(largest, info.state.elements);
    }
    fmt::print("to check: {} tensors with {:.4g} million weights; about {:.1f} GB of memory\n",
               checkpoint_.tensors().size(), 1e-6 * static_cast<double>(weights),
               1e-9 * bytes_per_weight * static_cast<double>(largest));
    if (!checkpoint_.other_tensors().empty()) {
      fmt::print("not to check: {}\n", printable(describe(checkpoint_.other_tensors())));
    }
    if (!kernels_.names.empty()) fmt::print("with: {}\n", fmt::join(kernels_.names, ", "));
    return exit_verified;
  }

  void one(std::size_t index) {
    const std::string& name = checkpoint_.tensors()[index].name;
    const auto answer = worker_.ask({{"name", name}, {"tensor", index}}, kernels_.names);
    progress_.clear();
    if (answer.json.is_null()) {
      throw std::runtime_error(
          fmt::format("{}: the process that checked it {}", printable(name), answer.why_none));
    }
    std::vector<Note> notes;
    for (const auto& note : answer.json.at("notes")) {
      notes.push_back({note.at(0), static_cast<Outcome>(note.at(1).get<int>()), note.at(2)});
    }
    for (const auto& [kernel, reason, outcome] : answer.crashed) {
      notes.push_back({kernel, outcome, reason});
    }
    summary_.add_tensor(notes);
    print(answer.json.at("tensor").get<std::string>(), notes);
    for (const auto& failure : answer.json.at("dump_failures")) {
      complain("verify", failure.get<std::string>().c_str());
    }
  }

  void print(const std::string& tensor, const std::vector<Note>& notes) const {
    const auto is_told = [](Outcome outcome) {
      return is_failure(outcome) || outcome == Outcome::not_measured;
    };
    if (!options_.brief || std::ranges::any_of(notes, is_told, &Note::outcome)) {
      fmt::print("{}\n", tensor);
    }
    for (const auto& [subject, outcome, reason] : notes) {
      if (!is_told(outcome)) continue;
      fmt::print("  {}: {}: {}\n", printable(subject), name(outcome), printable(reason));
    }
  }

  /// Runs in the worker: everything about one tensor.
  Worker::Json check(const Worker::Json& request, const Watchdog& watchdog) {
    notes_.clear();
    dump_failures_.clear();
    const auto& info = checkpoint_.tensors().at(request.at("tensor"));
    const auto tensor = checkpoint_.load(info, options_.threads);
    const auto output = reference::dequantize(tensor, options_.threads);
    compare_with_stored(info, tensor, output);
    check_source(info, tensor);
    const auto selected = request.at("kernels").get<std::vector<std::string>>();
    if (!selected.empty()) {
      kernels_.run(tensor, output, selected, watchdog,
                   [&](const KernelResult& result) { note_kernel(result, tensor, output); });
    }
    Worker::Json answer = {
        {"tensor", fmt::format("{}: [{}] {}, blocks of {}{}", printable(tensor.name),
                               fmt::join(tensor.shape, ", "), name(tensor.type), tensor.block_size,
                               tensor.nested ? ", nested scales" : "")},
        {"notes", Worker::Json::array()},
        {"dump_failures", dump_failures_}};
    for (const Note& note : notes_) {
      answer["notes"].push_back({note.subject, static_cast<int>(note.outcome), note.reason});
    }
    return answer;
  }

  void compare_with_stored(const reference::QuantizedTensorInfo& info,
                           const reference::QuantizedTensor& tensor, Bits output) {
    if (info.dequantized == nullptr) {
      note(reference_subject, Outcome::not_verified,
           "the file holds no .dequantized to compare with");
      return;
    }
    const auto stored = checkpoint_.load_bits(*info.dequantized);
    const auto comparison = reference::compare_bits(stored, output, options_.threads);
    if (comparison.equal()) {
      note(reference_subject, Outcome::bit_exact, "");
    } else {
      note_mismatch(reference_subject, tensor, comparison, stored, output);
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
    note(quantizer_subject, outcome, describe(check));
  }

  void note_kernel(const KernelResult& result, const reference::QuantizedTensor& tensor,
                   Bits expected) {
    if (result.outcome == Outcome::mismatch && !result.comparison.equal()) {
      note_mismatch(result.kernel, tensor, result.comparison, expected, result.actual);
    } else {
      note(result.kernel, result.outcome, result.reason);
    }
  }

  void note(std::string_view subject, Outcome outcome, const std::string& reason) {
    notes_.push_back({std::string(subject), outcome, reason});
  }

  void note_mismatch(std::string_view subject, const reference::QuantizedTensor& tensor,
                     const reference::Comparison& comparison, Bits expected, Bits actual) {
    note(subject, Outcome::mismatch,
         describe_mismatch(comparison, tensor,
                           expected[static_cast<std::size_t>(comparison.first_mismatch)],
                           actual[static_cast<std::size_t>(comparison.first_mismatch)]));
    if (!options_.dump_directory) return;
    try {
      dump_mismatch(*options_.dump_directory, tensor, std::string(subject), expected, actual);
    } catch (const UsageError& error) {  // the mismatch itself already fails the run
      dump_failures_.push_back(error.what());
    }
  }

  const Options& options_;
  reference::BnbCheckpoint checkpoint_;
  KernelChecks kernels_;
  Progress progress_;
  Summary summary_;
  std::vector<Note> notes_;  ///< Used in the worker, like the next, for the current tensor.
  std::vector<std::string> dump_failures_;
  Worker worker_;
};

/// Prints the tensors for reprolab_nf4/checkpoint.py, with PyTorch's names of types.
ExitStatus list(const Options& options) {
  const reference::BnbCheckpoint checkpoint(options.files);
  auto tensors = nlohmann::json::array();
  for (const auto& info : checkpoint.tensors()) {
    const bool fp16 = info.state.type == reference::WeightType::fp16;
    tensors.push_back({{"name", printable(info.name)},
                       {"shape", info.state.shape},
                       {"block_size", info.state.block_size},
                       {"nested", info.state.nested},
                       {"output", fp16 ? "float16" : "bfloat16"}});
  }
  fmt::print("{}\n", tensors.dump());
  return exit_verified;
}

}  // namespace

ExitStatus verify_checkpoint(const Options& options) {
  if (options.list) return as_usage_error(options, [&] { return list(options); });
  reference::self_test_comparison(options.threads);
  return as_usage_error(options, [&] { return Run(options).all(); });
}

}  // namespace reprolab::verify
