// Options of the measuring programs, and the steps of a pass before and after its measurements.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/provenance.hpp"
#include "harness/result_file.hpp"
#include "harness/sampling.hpp"
#include "harness/worker.hpp"
#include "profiling/clocks.hpp"
#include "profiling/machine.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace reprolab {

struct PassOptions {
  std::string experiment{}, pass{}, output{};
  std::string kernel{};    ///< A pattern of names: selects() in selection.hpp.
  std::uint64_t seed = 1;  ///< Seed of the data and of the order of samples.
  profiling::InstrumentKind instrument = profiling::InstrumentKind::events;
  double limit_s = 20;
  profiling::ClockPolicy clocks{};
  bool dry_run = false, describe = false, resume = false;
  std::vector<std::string> metrics{};  ///< Metrics selected by the user, in their order.

  /// Time limit of a kernel's turn; none if everything runs in one process.
  std::optional<std::chrono::milliseconds> limit() const;
};

/// Reads the command line. Returns an exit status if it contained --help, which has then been
/// printed. Throws UsageError that points to --help if it cannot be parsed.
std::optional<int> parse(CLI::App& app, int argc, char** argv);

/// Adds --experiment, --pass, --output, --kernel, --seed, --instrument, --limit-s, --clocks,
/// --resume, --dry-run and --describe; the program measures with `instruments`.
void add_pass_options(CLI::App& app, PassOptions& options, std::set<std::string> instruments);

/// The last line of a dry run: the GPU, or why nothing can run here.
std::string dry_run_place(const std::optional<profiling::Gpu>& gpu, const std::string& why_not);

/// The kernels among `kernels` that a request to a worker names.
std::vector<VariantInfo> selected_kernels(const Worker::Json& request,
                                          const std::vector<VariantInfo>& kernels);

/// The answer to a request, with rows also for kernels that crashed the worker.
struct MeasuredRows {
  std::vector<Record> records;
  Worker::Answer answer;
};

/// Makes the rows of a kernel that did not run, from the reason.
using RowsOf = std::function<std::vector<Record>(const VariantInfo& kernel, const Verification&)>;

/// Sends a worker the request to measure `kernels`, unless an earlier run has its answer. The
/// answer is an object with "records"; `rows_of` makes the rows of a kernel that has none there.
MeasuredRows measure_in(Worker& worker, const Worker::Json& request,
                        const std::vector<VariantInfo>& kernels, const RowsOf& rows_of);

/// Fills the file's records and checks. Its workers get `unfinished`.
using MeasurePass = std::function<void(ResultFile&, UnfinishedRun& unfinished)>;

/// Tests the comparison, checks that the result file can be written and that no other process
/// computes on the GPU, locks the SM clock if requested, observes the GPU during `measure`, resets
/// the clock, writes the file, and returns the exit status. No CUDA call may precede it.
int run_pass(const PassOptions& options, std::vector<std::string> argv, const Machine& machine,
             const MeasurePass& measure);

}  // namespace reprolab
