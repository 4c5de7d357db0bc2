#include "harness/pass.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <thread>

#include "harness/errors.hpp"
#include "harness/family.hpp"
#include "harness/selection.hpp"
#include "kernels/printable.hpp"
#include "profiling/basics.hpp"
#include "profiling/nvml.hpp"
#include "reference/compare.hpp"

namespace reprolab {
namespace {

/// Empty if `text` is valid, else the remedy.
std::string plain_name(const std::string& text) {
  return is_plain_name(text) ? "" : fmt::format("give a name of {}", plain_name_rule);
}

/// Null if the clocks are only observed.
std::unique_ptr<profiling::ClockLock> lock_clock(const PassOptions& options,
                                                 const Machine& machine) {
  if (!options.clocks.locks()) return nullptr;
  try {
    auto lock = std::make_unique<profiling::ClockLock>(machine.pci_bus_id, options.clocks);
    fmt::print(
        "the SM clock is locked at {} MHz; afterwards it is reset to the driver's default, as an "
        "earlier lock cannot be restored\n",
        lock->mhz());
    std::fflush(stdout);
    return lock;
  } catch (const std::runtime_error& error) {
    throw UsageError(
        fmt::format("--clocks: {}; leave --clocks out to measure without a lock", error.what()));
  }
}

/// Throws UsageError if another process computes on this GPU: its kernels would share the memory's
/// bandwidth and the clocks.
void require_idle_gpu(const Machine& machine) {
  std::string no_nvml;
  const auto device = profiling::find_nvml_device(machine.pci_bus_id, &no_nvml);
  if (!device) return;
  std::vector<unsigned> processes = device->compute_processes();
  for (int tenths = 0; tenths < 20 && !processes.empty(); ++tenths) {  // one that just ended
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    processes = device->compute_processes();
  }
  if (processes.empty()) return;
  throw UsageError(fmt::format(
      "another process computes on this GPU ({}), so that times would be wrong: end it, or select "
      "another GPU with CUDA_VISIBLE_DEVICES",
      fmt::join(processes, ", ")));
}

}  // namespace

std::optional<std::chrono::milliseconds> PassOptions::limit() const {
  if (instrument == profiling::InstrumentKind::none) return std::nullopt;
  return std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * limit_s));
}

std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{}; see {} --help", error.what(), app.get_name()));
  }
  return std::nullopt;
}

void add_pass_options(CLI::App& app, PassOptions& options, std::set<std::string> instruments) {
  app.add_option(
      "--kernel", options.kernel,
      "Kernels to run, by name; * ? and | as in a shell's case; ! before it: all others");
  app.add_option("--seed", options.seed, "Seed of the data and of the order of samples")
      ->check(CLI::Range(0, 2147483647))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--instrument",
         [&options](const std::string& name) {
           options.instrument =
               value_named<profiling::InstrumentKind>(profiling::instrument_names, name);
         },
         "CUDA events, CUPTI's activity records, hardware counters instead of times, or none: "
         "verify "
         "and launch only, for ncu, nsys and compute-sanitizer")
      ->check(CLI::IsMember(std::move(instruments)))
      ->default_str(std::string(profiling::name(options.instrument)));
  app.add_option("--limit-s", options.limit_s, "Time limit of a kernel in seconds")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--clocks",
         [&options](const std::string& text) {
           try {
             options.clocks = profiling::parse_clock_policy(text);
           } catch (const std::invalid_argument& error) {
             throw CLI::ValidationError("--clocks", error.what());
           }
         },
         "observe, or lock the SM clock (as root): max, or a number of MHz")
      ->default_str("observe");
  app.add_option("--experiment", options.experiment, "Name in the result file")
      ->check(plain_name)
      ->capture_default_str();
  app.add_option("--pass", options.pass, "Name of the pass in the result file")
      ->check(plain_name)
      ->capture_default_str();
  app.add_option("--output", options.output, "Write the result file there");
  app.add_flag(
      "--resume", options.resume,
      "Keep the problem groups that an interrupted run of the same arguments, sources, GPU "
      "and driver has finished");
  app.add_flag("--dry-run", options.dry_run, "Print what would run, then exit");
  app.add_flag("--describe", options.describe,
               "Print what the families and kernels are, as JSON, then exit");
}

std::string dry_run_place(const std::optional<profiling::Gpu>& gpu, const std::string& why_not) {
  return gpu ? fmt::format("on {} (compute capability {})", gpu->name, gpu->compute_capability)
             : fmt::format("none of this can run here: {}", why_not);
}

std::vector<VariantInfo> selected_kernels(const Worker::Json& request,
                                          const std::vector<VariantInfo>& kernels) {
  std::vector<VariantInfo> selected;
  for (const auto& name : request.at("kernels")) {
    selected.push_back(kernel_named(kernels, name.get<std::string>()));
  }
  return selected;
}

MeasuredRows measure_in(Worker& worker, const Worker::Json& request,
                        const std::vector<VariantInfo>& kernels, const RowsOf& rows_of) {
  Worker::Json key = request;
  key["kernels"] = names_of(kernels);
  UnfinishedRun* unfinished = worker.unfinished();
  if (unfinished != nullptr) {
    if (Worker::Json answer = unfinished->finished(key); !answer.is_null()) {
      auto records = answer.at("records").get<std::vector<Record>>();
      return {std::move(records), {std::move(answer)}};
    }
  }
  MeasuredRows rows{{}, worker.ask(request, names_of(kernels))};
  if (const auto& json = rows.answer.json; !json.is_null()) {
    rows.records = json.at("records").get<std::vector<Record>>();
  }
  for (const auto& [kernel, reason, outcome] : rows.answer.crashed) {
    std::ranges::move(rows_of(kernel_named(kernels, kernel), {outcome, reason}),
                      std::back_inserter(rows.records));
  }
  const bool is_whole = std::ranges::none_of(
      rows.records, [](Outcome o) { return o == Outcome::not_measured; }, &Record::outcome);
  if (unfinished != nullptr && is_whole && !rows.answer.json.is_null()) {
    Worker::Json answer = rows.answer.json;
    answer["records"] = rows.records;
    unfinished->keep(key, answer);
  }
  return rows;
}

int run_pass(const PassOptions& options, std::vector<std::string> argv, const Machine& machine,
             const MeasurePass& measure) {
  reference::self_test_comparison();
  const std::string program = std::filesystem::path(argv.at(0)).filename();
  std::erase(argv, "--resume");  // the rows are the same without it
  if (!options.output.empty()) require_writable(options.output);
  if (options.limit()) require_idle_gpu(machine);
  set_code_target(machine.gpu.at("compute_capability"));
  ResultFile results{.experiment = options.experiment, .pass = options.pass};
  const nlohmann::json sources = find_sources(project_root());  // they may change in the pass
  const bool keeps = !options.output.empty() && options.limit();
  UnfinishedRun unfinished =
      keeps ? UnfinishedRun(options.output,
                            {{"argv", argv}, {"sources", sources}, {"gpu", machine.gpu}},
                            options.resume)
            : UnfinishedRun();
  if (!unfinished.remark().empty()) complain(program.c_str(), unfinished.remark().c_str());
  {
    // Must come first, because it forks: the observer has a thread.
    const auto lock = lock_clock(options, machine);
    results.provenance = observe(argv, options.instrument, options.seed, machine,
                                 lock ? std::optional(lock->mhz()) : std::nullopt,
                                 [&] { measure(results, unfinished); });
  }
  results.families = describe_families(&results.records);
  results.provenance.update(sources);
  results.provenance["metrics"] = options.metrics;
  if (const auto& from = unfinished.resumed_from(); !from.is_null()) {
    results.provenance["resumed_from"] = from;
  }
  if (!options.output.empty()) {
    write_whole(options.output, results.text());
    unfinished.done();
  }
  const int status = results.exit_status();
  if (status == exit_usage) {
    complain(program.c_str(), "no selected kernel could run; the reasons are above");
  }
  return status;
}

}  // namespace reprolab
