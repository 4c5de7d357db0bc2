// latency: cycles of one dependent access to each kind of memory. `make reproduce-counters`.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>

#include "harness/errors.hpp"
#include "harness/family.hpp"
#include "harness/pass.hpp"
#include "harness/programs/latency/chases.hpp"
#include "harness/sampling.hpp"
#include "harness/selection.hpp"
#include "profiling/basics.hpp"
#include "profiling/machine.hpp"

namespace reprolab::latency {
namespace {

struct Options {
  PassOptions pass{.experiment = "latency", .pass = "latency"};
  int samples = 101;
};

Family family({.name = "latency"});

std::vector<VariantInfo> variants(const std::vector<Space>& spaces) {
  std::vector<VariantInfo> all;
  for (const Space& space : spaces) {
    VariantInfo& variant = all.emplace_back();
    variant.name = space.name;
    variant.lineage = "ours, for the latencies of the paper's section III-B";
    variant.source_file = "profiling/latency.cu";
  }
  return all;
}

const Space& space_named(const std::vector<Space>& spaces, const std::string& name) {
  return *std::ranges::find(spaces, name, &Space::name);
}

int dry_run(const Options& options, const std::vector<VariantInfo>& selected) {
  std::string why_not;
  const auto gpu = profiling::find_gpu(&why_not);
  fmt::print("{} samples of each of {}\n{}\n", options.samples, fmt::join(names_of(selected), ", "),
             dry_run_place(gpu, why_not));
  return exit_verified;
}

/// Runs the chases in a worker process, which a row may crash.
std::vector<Record> measure(const Options& options, const std::vector<Space>& spaces,
                            const std::vector<VariantInfo>& selected, UnfinishedRun& unfinished) {
  const auto row_of = [&](const VariantInfo& variant, const Verification& verified) {
    return start_row(space_named(spaces, variant.name).facts(), variant, verified);
  };
  const auto serve = [&](const Worker::Json& request, const Watchdog& watchdog) -> Worker::Json {
    // Created before the first CUDA call, because CUPTI records only what follows.
    const auto instrument = profiling::make_instrument(options.pass.instrument);
    Chases chases(require_gpu(), options.pass.seed, options.pass.experiment);
    std::vector<Row> rows;
    for (const auto& variant : selected_kernels(request, selected)) {
      rows.push_back(row_of(variant, watchdog.turn(variant.name, [&] {
        return chases.verify(space_named(spaces, variant.name), variant, *instrument);
      })));
    }
    if (instrument->kind() != profiling::InstrumentKind::none) {
      take_samples(
          rows,
          {.name = "latency",
           .sample = [&](Row& row) { return chases.sample(row.record.variant, *instrument); },
           .sm_mhz = [&] { return chases.sm_mhz(); }},
          {.samples = options.samples, .seed = options.pass.seed}, watchdog);
    }
    return {{"records", records_of(std::move(rows))}};
  };
  Worker worker(serve, options.pass.limit(), &unfinished);
  return measure_in(worker, {{"name", "the latencies"}}, selected,
                    [&](const auto& variant, const auto& why) {
                      return std::vector{row_of(variant, why).record};
                    })
      .records;
}

int run(int argc, char** argv) {
  CLI::App app("Measures the cycles of one dependent access to each kind of memory.", "latency");
  Options options;
  add_pass_options(app, options.pass, {"events", "activity", "none"});
  app.add_option("--samples", options.samples, "Chases per row")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  if (const auto status = parse(app, argc, argv)) return *status;
  if (options.pass.describe) return print_description();
  const auto selected = select_kernels(options.pass.kernel, variants(spaces(0)));
  if (options.pass.dry_run) return dry_run(options, selected);
  const Machine machine = require_machine();
  const auto all = spaces(machine.gpu.at("l2_bytes"));
  return run_pass(options.pass, {argv, argv + argc}, machine,
                  [&](ResultFile& results, UnfinishedRun& unfinished) {
                    results.records = measure(options, all, selected, unfinished);
                    for (const Record& record : results.records) {
                      fmt::print("{}\n", describe_row(record, {latency_metric}));
                    }
                  });
}

}  // namespace
}  // namespace reprolab::latency

int main(int argc, char** argv) {
  return reprolab::run_program("latency", [&] { return reprolab::latency::run(argc, argv); });
}
