// latency: cycles of one dependent access to each kind of memory. `make reproduce-counters`.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "harness/buffer_sets.hpp"
#include "harness/command_line.hpp"
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

Family family({.name = "latency", .element = "step", .types = {}});

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

/// Assumes 800 cycles for a step in DRAM and 300 in L2, at 1.5 GHz, as on an H200.
double about_seconds(const Space& space, int samples) {
  const bool past_l1 = space.step == Step::global_past_l1;
  const double cycles = !past_l1 ? 40 : space.bytes() > (16u << 20) ? 800 : 300;
  const double make_s = 1e-7 * space.nodes.count();
  return make_s + samples * (1e-3 + 2 * cycles * profiling::latency::timed_steps / 1.5e9);
}

int dry_run(const Options& options, const std::vector<Space>& spaces,
            const std::vector<VariantInfo>& selected) {
  fmt::print("{:<22} {:>16} {:>12} {:>8}\n", "kernel", "nodes", "memory", "about");
  double seconds = 0;
  for (const VariantInfo& variant : selected) {
    const Space& space = space_named(spaces, variant.name);
    seconds += about_seconds(space, options.samples);
    fmt::print("{:<22} {:>16} {:>8.2f} GiB {:>6.1f} s\n", space.name, space.chain(),
               profiling::gib(space.bytes()), about_seconds(space, options.samples));
  }
  std::string why_not;
  const auto gpu = profiling::find_gpu(&why_not);
  fmt::print("{} samples per row; about {:.0f} s\n{}\n{}\n", options.samples, seconds,
             dry_run_notes(options.pass, gpu), dry_run_place(gpu, why_not));
  return exit_verified;
}

void print(const Record& record) {
  const Metric* cycles = record.metric(latency_metric);
  fmt::print("{:<22} {:>10} {}\n", record.variant.name,
             cycles ? fmt::format("{:.2f}", median(cycles->samples)) : "-",
             describe_ending(record));
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
  add_pass_options(app, options.pass);
  app.add_option("--samples", options.samples, "Chases per row")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  if (const auto status = parse(app, argc, argv)) return *status;
  if (options.pass.describe) return print_description();
  const auto selected = select_kernels(options.pass.kernel, variants(spaces(0)));
  const auto l2_bytes = [](const std::optional<Machine>& machine) {
    return machine ? machine->gpu.at("l2_bytes").get<std::uint64_t>() : 0;
  };
  if (options.pass.dry_run) {
    std::string why_not;
    const auto all = spaces(l2_bytes(find_machine(&why_not)));
    return dry_run(options, all, selected);
  }
  const Machine machine = require_machine();
  const auto all = spaces(l2_bytes(machine));
  return run_pass(options.pass, {argv, argv + argc}, machine,
                  [&](ResultFile& results, UnfinishedRun& unfinished) {
                    results.records = measure(options, all, selected, unfinished);
                    fmt::print("cycles per step, median of {} chases\n", options.samples);
                    std::ranges::for_each(results.records, print);
                  });
}

}  // namespace
}  // namespace reprolab::latency

int main(int argc, char** argv) {
  return reprolab::run_program("latency", [&] { return reprolab::latency::run(argc, argv); });
}
