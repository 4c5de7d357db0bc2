// bench: measures kernels alone, cold, on one problem at a time. `make bench KERNEL=name`.
#include <benchmark/benchmark.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "experiments/bench/benchmark_front.hpp"
#include "experiments/bench/plan.hpp"
#include "experiments/harness/command_line.hpp"
#include "experiments/harness/errors.hpp"
#include "experiments/harness/provenance.hpp"
#include "reference/compare.hpp"

namespace reprolab::bench {
namespace {

struct Options {
  Selection selection;
  MeasureOptions measure;
  std::string output, pass = "alone";
  bool list = false, dry_run = false;
};

void add_options(CLI::App& app, Options& options) {
  app.add_flag("--list", options.list, "List every registered kernel and exit");
  app.add_flag("--dry-run", options.dry_run, "Say what would run, how long it takes, and exit");
  app.add_option("--family", options.selection.family, "Families whose name matches (regex)");
  app.add_option("--kernel", options.selection.kernel, "Kernels whose whole name matches (regex)");
  app.add_option("--problem", options.selection.problem, "Problems whose name matches (regex)");
  add_measure_options(app, options.measure);
  app.add_option("--batch-us", options.measure.batch_us, "GPU time a batch aims at")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  app.add_option("--experiment", options.measure.experiment, "Name in the result file");
  app.add_option("--pass", options.pass, "Name of the pass in the result file");
  app.add_option("--output", options.output, "Write the result file there");
  app.footer("Everything that begins with --benchmark_ goes to Google Benchmark.");
  app.allow_extras();
}

/// Flags of Google Benchmark that our own order of samples overrules.
void refuse_overruled(const std::string& word) {
  for (const char* flag : {"--benchmark_enable_random_interleaving", "--benchmark_repetitions",
                           "--benchmark_format"}) {
    if (word.starts_with(flag)) {
      throw UsageError(std::string(flag) +
                       ": not served; samples are always interleaved (--seed, "
                       "--samples), and --benchmark_out writes files");
    }
  }
}

/// Google Benchmark reads what CLI11 left over; what it does not know either is an error.
void initialize_benchmark(const CLI::App& app, const char* program) {
  std::vector<std::string> words = app.remaining();
  words.insert(words.begin(), program);
  for (const auto& word : words) refuse_overruled(word);
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  int count = static_cast<int>(words.size());
  benchmark::Initialize(&count, pointers.data());
  if (count > 1)
    throw UsageError(std::string("unknown option '") + pointers[1] + "'; see bench --help");
}

bool lists_tests(const CLI::App& app) {
  return std::ranges::any_of(app.remaining(), [](const std::string& word) {
    return word.starts_with("--benchmark_list_tests") && !word.ends_with("=false");
  });
}

int run(int argc, char** argv) {
  CLI::App app("Measures kernels alone: verified, timed cold, verified again.", "bench");
  Options options;
  options.measure.experiment = "bench";
  add_options(app, options);
  for (Family* family : families()) family->add_options(app);
  if (const auto status = parse(app, argc, argv)) return *status;
  for (const auto& word : app.remaining()) {
    if (!word.starts_with("--benchmark_")) {
      throw UsageError("unknown option '" + word + "'; see bench --help");
    }
  }
  for (Family* family : families()) family->configure();
  if (options.list) {
    print_kernels();
    return exit_verified;
  }
  const auto groups = select(options.selection);
  if (options.dry_run) {
    std::string why_not;
    const auto gpu = profiling::find_gpu(&why_not);
    print_plan(groups, options.measure.samples, options.measure.batch_us, gpu, why_not);
    return exit_verified;
  }

  initialize_benchmark(app, argv[0]);
  reference::prove_comparison();
  if (!options.output.empty()) require_writable(options.output);
  PassObserver observer(to_strings(argc, argv), options.measure.instrument, options.measure.seed);
  ResultFile results{.experiment = options.measure.experiment, .pass = options.pass};
  results.records = options.measure.instrument == profiling::Instrument::none
                        ? run_without_timing(groups, options.measure)
                        : run_benchmarks(groups, options.measure, observer.gpu().l2_bytes);
  results.provenance = observer.describe();
  if (results.records.empty()) {
    if (lists_tests(app)) return exit_verified;
    throw UsageError("--benchmark_filter selects nothing; --benchmark_list_tests lists the rows");
  }
  if (!options.output.empty()) write_whole(options.output, results.to_json().dump(1) + "\n");
  const int status = results.exit_status();
  if (status == exit_usage)
    fmt::print(stderr, "bench: no selected kernel could run; the reasons are above\n");
  return status;
}

}  // namespace
}  // namespace reprolab::bench

int main(int argc, char** argv) {
  return reprolab::run_program("bench", [&] { return reprolab::bench::run(argc, argv); });
}
