// transpose_matrix: the post's one matrix, all kernels, and its claims. `make reproduce-transpose`.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "experiments/harness/command_line.hpp"
#include "experiments/harness/errors.hpp"
#include "experiments/harness/measure.hpp"
#include "experiments/harness/provenance.hpp"
#include "experiments/harness/selection.hpp"
#include "experiments/harness/slots.hpp"
#include "experiments/harness/statistics.hpp"
#include "experiments/harness/verdict.hpp"
#include "experiments/transpose/protocol.hpp"
#include "experiments/transpose/verdicts.hpp"
#include "experiments/transpose/workload.hpp"

namespace reprolab::transpose {
namespace {

struct Options {
  std::int64_t size = 0;
  std::string kernel, output;
  MeasureOptions measure{.experiment = "transpose"};
  bool dry_run = false;
};

void add_options(CLI::App& app, Options& options) {
  app.add_option("--size", options.size,
                 fmt::format("Rows and columns [{}, or the most that fits]", posts_size))
      ->check(CLI::Range(1, 1 << 18));
  app.add_option("--kernel", options.kernel, "Kernels whose whole name matches (regex)");
  add_measure_options(app, options.measure);
  app.add_option("--output", options.output, "Write the result file there");
  app.add_flag("--dry-run", options.dry_run, "Say what would run, how much memory, and exit");
}

MatrixSpec square(std::int64_t size, Data data = Data::random) {
  return {.rows = size, .columns = size, .data = data};
}

/// The post's size, or the first half, quarter, ... of it that fits.
std::int64_t size_that_fits(std::uint64_t l2_bytes, const FreeMemory& free) {
  std::string why_none;
  for (std::int64_t size = posts_size; size >= smallest_size; size /= 2) {
    const Slots slots = slots_for(plan(square(size)), l2_bytes, free);
    if (slots.count > 0) {
      if (size < posts_size) {
        fmt::print("the post's {0}x{0} {1}: {2}x{2} is taken\n", posts_size, why_none, size);
      }
      return size;
    }
    if (why_none.empty()) why_none = slots.why_none;
  }
  throw UsageError(fmt::format("not even {0}x{0} fits: {1}", smallest_size, why_none));
}

void print_plan(const Options& options, std::size_t kernels) {
  std::string why_not;
  const auto gpu = profiling::find_gpu(&why_not);
  const std::uint64_t l2_bytes = gpu ? gpu->l2_bytes : 0;
  const std::int64_t size = options.size > 0 ? options.size
                            : gpu            ? size_that_fits(l2_bytes, free_memory())
                                             : posts_size;
  const PlannedProblem planned = plan(square(size));
  fmt::print(
      "{0}x{0} fp32, {1} kernels, random and constant data: {2:.1f} GiB of device memory, {3:.1f} "
      "GiB of host memory, {4}\n",
      size, kernels, gib(device_bytes(planned, cold_slots(planned.slot_device_bytes, l2_bytes))),
      gib(host_bytes(planned)), size < posts_size ? "seconds" : "about half a minute on 16 cores");
  if (!gpu) {
    fmt::print("nothing of it can run here: {}\n", why_not);
    return;
  }
  fmt::print("on {} (compute capability {})\n", gpu->name, gpu->compute_capability);
  const Slots slots = slots_for(planned, l2_bytes, free_memory());
  if (slots.count == 0) fmt::print("  does not fit: {}\n", slots.why_none);
}

void print_row(const Record& row) {
  if (row.samples_us.empty()) {
    fmt::print("  {:<26} {}{}{}\n", row.variant.name, name(row.outcome),
               row.reason.empty() ? "" : ": ", row.reason);
    return;
  }
  const double us = summarize(row.samples_us).median;
  const auto bytes = static_cast<double>(row.bytes_read + row.bytes_written);
  fmt::print("  {:<26} {:>9.1f} us {:>7.0f} GB/s  {}\n", row.variant.name, us, 1e-3 * bytes / us,
             row.variant.role == Role::ceiling ? "ceiling" : name(row.outcome));
}

/// All kernels on one matrix, appended to `records`.
void measure(Measurement& measurement, const MatrixSpec& spec,
             const std::vector<VariantInfo>& kernels, const MeasureOptions& options,
             std::uint64_t l2_bytes, std::vector<Record>& records) {
  fmt::print("{}\n", spec.name());
  for (const Record& row : measurement.run(plan(spec), kernels, options, l2_bytes)) {
    print_row(row);
    records.push_back(row);
  }
}

int run(int argc, char** argv) {
  CLI::App app("Transposes the post's matrix with every kernel and decides the post's claims.",
               "transpose_matrix");
  Options options;
  add_options(app, options);
  if (const auto status = parse(app, argc, argv)) return *status;
  const auto published = read_json(project_root() / "data/published/published.json");
  const auto kernels = select_kernels(options.kernel, registered_variants<Problem>());
  if (options.dry_run) {
    print_plan(options, kernels.size());
    return exit_verified;
  }

  reference::prove_comparison();
  if (!options.output.empty()) require_writable(options.output);
  PassObserver observer(to_strings(argc, argv), options.measure.instrument, options.measure.seed);
  const std::uint64_t l2_bytes = observer.gpu().l2_bytes;
  Measurement measurement;
  const std::int64_t size =
      options.size > 0 ? options.size : size_that_fits(l2_bytes, free_memory());
  ResultFile results{.experiment = "transpose", .pass = "matrix"};
  measure(measurement, square(size), kernels, options.measure, l2_bytes, results.records);
  // The post's own check needs no time, and gets none.
  MeasureOptions check = options.measure;
  check.instrument = profiling::Instrument::none;
  measure(measurement, square(size, Data::constant), kernels, check, l2_bytes, results.records);
  if (options.measure.instrument == profiling::Instrument::events) {
    results.verdicts =
        decide(results.records, observer.gpu().theoretical_bandwidth_gb_s, published);
    print_verdicts(results.verdicts, [](const VerdictRecord&) { return true; });
  }
  results.provenance = observer.describe();
  if (!options.output.empty()) write_whole(options.output, results.to_json().dump(1) + "\n");
  const int status = results.exit_status();
  if (status == exit_usage) {
    fmt::print(stderr, "transpose_matrix: no selected kernel could run; the reasons are above\n");
  }
  return status;
}

}  // namespace
}  // namespace reprolab::transpose

int main(int argc, char** argv) {
  return reprolab::run_program("transpose_matrix",
                               [&] { return reprolab::transpose::run(argc, argv); });
}
