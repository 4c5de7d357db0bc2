// bench: measures kernels alone, with cold caches or warm ones, one problem at a time. `make bench
// KERNEL=name`.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <functional>

#include "harness/errors.hpp"
#include "harness/family.hpp"
#include "harness/pass.hpp"
#include "harness/programs/bench/bench.hpp"
#include "profiling/counters.hpp"

namespace reprolab::bench {
namespace {

struct Options {
  PassOptions pass{.experiment = "bench", .pass = "alone"};
  Selection selection;
  MeasureOptions measure;
  std::optional<int> samples;
  std::string metrics;
  std::vector<profiling::Counter> counters;  ///< To be counted.
  bool list = false, json = false;
};

/// Counters need few samples: a call is repeated for each pass, and counts hardly vary.
constexpr int samples_of_counters = 3;

void add_options(CLI::App& app, Options& options) {
  app.add_flag("--list", options.list, "List the kernels and exit");
  add_pass_options(app, options.pass, {"events", "activity", "counters", "none"});
  app.add_flag("--json", options.json, "--dry-run prints JSON");
  app.add_option("--family", options.selection.family, "Families, by name: as --kernel");
  app.add_option("--problem", options.selection.problem, "Problems, by name: as --kernel");
  app.add_option("--data", options.selection.data, "What problems are filled with, by name")
      ->delimiter(',');
  app.add_flag("--warm", options.selection.warm,
               "Launch in the same memory again and again, so that what fits stays in the cache");
  app.add_flag("--small", options.selection.small,
               "Each family's small problems of every kind, for compute-sanitizer");
  app.add_option("--samples", options.samples, "Timed batches per row")
      ->check(CLI::Range(1, 100000))
      ->default_str(
          fmt::format("{}; {} of counters", options.measure.samples, samples_of_counters));
  app.add_option("--batch-us", options.measure.batch_us,
                 "Target GPU time of a batch, in microseconds")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  app.add_option("--metrics", options.metrics,
                 "More counters to read, between commas: metrics of CUPTI, or columns of "
                 "data/counters.json; they are also printed");
  app.footer("Everything that begins with --benchmark_ goes to Google Benchmark.");
  app.allow_extras();
}

/// Throws UsageError if the options contradict each other.
void decide_what_is_measured(Options& options) {
  options.selection.kernel = options.pass.kernel;
  options.measure.experiment = options.pass.experiment;
  options.measure.seed = options.pass.seed;
  options.measure.counted = options.pass.instrument == profiling::InstrumentKind::counters;
  if (options.measure.counted && options.selection.warm) {
    throw UsageError(
        "--warm: counters are of one call, before which the cache is as CUPTI leaves it; give one "
        "of the two");
  }
  if (options.measure.counted) options.measure.samples = samples_of_counters;
  if (options.samples) options.measure.samples = *options.samples;
  if (!options.measure.counted) {
    if (options.metrics.empty()) return;
    throw UsageError("--metrics: needs --instrument counters");
  }
  try {
    options.counters = profiling::parse_counters(read_json(project_root() / "data/counters.json"));
    if (options.metrics.empty()) return;
    options.pass.metrics = profiling::add_chosen(options.counters, options.metrics);
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
}

int dry_run(const Options& options) {
  std::string why_not;
  const auto gpu = profiling::find_gpu(&why_not);
  const auto groups =
      gpu ? select(options.selection, free_memory()) : select(options.selection, {~0ull, ~0ull});
  if (options.json) {
    print_plan_as_json(groups, gpu, why_not);
    return exit_verified;
  }
  print_plan(groups, options.measure, gpu, why_not);
  return exit_verified;
}

/// Device memory that a request's kernels may keep. If they keep more, the worker is ended, so that
/// the next problem has all memory.
constexpr std::uint64_t max_lost_bytes = std::uint64_t{256} << 20;

/// Measures groups in a worker process, which a kernel may crash.
class Bench {
 public:
  Bench(const Options& options, const std::vector<Group>& groups, UnfinishedRun& unfinished)
      : options_(options),
        groups_(groups),
        ceilings_(ceilings_measured_by(options.pass.instrument)),
        worker_([this](const Worker::Json& request,
                       const Watchdog& watchdog) { return serve(request, watchdog); },
                options.pass.limit(), &unfinished) {}

  std::vector<Record> measure(const Group& group) {
    const auto& facts = group.planned.facts;
    auto [records, answer] =
        measure_in(worker_, {{"name", facts.name}, {"group", group.index}}, group.kernels,
                   [&](const auto& kernel, const auto& why) {
                     return std::vector{record_without_run(facts, kernel, why)};
                   });
    if (answer.json.is_null()) {
      for (const auto& ceiling : ceilings_) {
        records.push_back(
            record_without_run(facts, ceiling, {Outcome::not_measured, answer.why_none}));
      }
    } else if (answer.json.at("lost_bytes") > max_lost_bytes) {
      worker_.stop();
    }
    return records;
  }

 private:
  std::unique_ptr<profiling::Instrument> make_instrument() const {
    if (!options_.measure.counted) return profiling::make_instrument(options_.pass.instrument);
    return profiling::make_counters(
        {options_.counters, [](const std::string& reason) {
           complain("bench", (reason + " The run goes on without them.").c_str());
         }});
  }

  /// Runs in the worker.
  Worker::Json serve(const Worker::Json& request, const Watchdog& watchdog) {
    if (!measurement_) {
      // Created before the first CUDA call, because CUPTI records only what follows.
      auto instrument = make_instrument();
      measurement_ = std::make_unique<Measurement>(require_gpu(), std::move(instrument));
    }
    const Group& group = groups_.at(request.at("group"));
    const auto records = measurement_->run(group.planned, selected_kernels(request, group.kernels),
                                           options_.measure, watchdog);
    const std::uint64_t free_bytes = free_memory().device_bytes;
    max_free_bytes_ = std::max(max_free_bytes_, free_bytes);
    return {{"records", records}, {"lost_bytes", max_free_bytes_ - free_bytes}};
  }

  const Options& options_;
  const std::vector<Group>& groups_;
  std::vector<VariantInfo> ceilings_;
  // Used in the worker only.
  std::unique_ptr<Measurement> measurement_;
  std::uint64_t max_free_bytes_ = 0;  ///< Maximum free device memory after any request.
  Worker worker_;
};

/// Runs untimed rows without Google Benchmark, and prints one line for each, with the metrics that
/// `chosen` names.
void run_without_timing(const std::vector<Group>& groups, const std::vector<std::string>& chosen,
                        const MeasureGroup& measure, std::vector<Record>& all) {
  for (const Group& group : groups) {
    for (const Record& record : measure(group)) {
      fmt::print("{}/{}\n", group.family->name(), describe_row(record, chosen));
      all.push_back(record);
    }
  }
}

std::string context(const Machine& machine, const MeasureOptions& options) {
  const auto text = [&](const char* key) {
    return machine.gpu.at(key).is_string() ? machine.gpu.at(key).get<std::string>() : "not known";
  };
  return fmt::format("{}, driver {}, CUDA {}\n{}; --kernel, --problem and --family select\n",
                     text("name"), text("driver"), text("cuda_runtime"), describe_samples(options));
}

int run(int argc, char** argv) {
  CLI::App app(
      "Measures each kernel alone: verified, timed with cold caches (--warm: with what fits in "
      "them), verified again in every "
      "sample.",
      "bench");
  Options options;
  add_options(app, options);
  for (Family* family : families()) family->add_options(app);
  if (const auto status = parse(app, argc, argv)) return *status;
  decide_what_is_measured(options);
  for (const auto& word : app.remaining()) {
    if (!word.starts_with("--benchmark_")) {
      throw UsageError("unknown option '" + word + "'; see bench --help");
    }
  }
  for (Family* family : families()) family->configure();
  if (options.pass.describe) return print_description();
  const auto all = select(options.selection, {~0ull, ~0ull});  // reports a wrong selection early
  if (options.list) {
    print_kernels(all);
    return exit_verified;
  }
  if (options.pass.dry_run) return dry_run(options);
  initialize_benchmark(argv[0], app.remaining());
  const auto kind = options.pass.instrument;
  const auto ceilings = ceilings_measured_by(kind);
  const Machine machine = require_machine();
  const auto groups = select(options.selection, machine.free);
  std::vector<Group> timed, untimed;
  for (const Group& group : groups) {
    const bool is_timed =
        group.planned.timed && kind != profiling::InstrumentKind::none && !options.measure.counted;
    (is_timed ? timed : untimed).push_back(group);
  }
  return run_pass(options.pass, {argv, argv + argc}, machine,
                  [&](ResultFile& results, UnfinishedRun& unfinished) {
                    Bench bench(options, groups, unfinished);
                    const MeasureGroup measure = std::bind_front(&Bench::measure, &bench);
                    if (!timed.empty()) {
                      results.records = run_benchmarks(timed, ceilings,
                                                       context(machine, options.measure), measure);
                    }
                    run_without_timing(untimed, options.pass.metrics, measure, results.records);
                  });
}

}  // namespace
}  // namespace reprolab::bench

int main(int argc, char** argv) {
  return reprolab::run_program("bench", [&] { return reprolab::bench::run(argc, argv); });
}
