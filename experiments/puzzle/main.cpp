// puzzle: Unsloth's NF4 puzzle, timed as published and through CUDA graphs. `make
// reproduce-puzzle`.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "experiments/puzzle/puzzle.hpp"
#include "harness/errors.hpp"
#include "harness/family.hpp"
#include "harness/measure.hpp"
#include "harness/nf4/options.hpp"
#include "harness/pass.hpp"
#include "harness/selection.hpp"
#include "profiling/machine.hpp"

namespace reprolab::puzzle {
namespace {

struct Options {
  // A kernel's turn is two whole runs: seconds on a small GPU.
  PassOptions pass{.experiment = "puzzle", .pass = "mlps", .limit_s = 120};
  int iterations = published_iterations;
  int samples = 5;
  std::vector<std::string> peers;
};

/// Its kernels are those of family nf4.
Family family({
    .name = "puzzle",
    .parts =
        [] {
          std::vector<FamilyFacts::Part> parts;
          for (const Mlp& mlp : mlps) parts.push_back({mlp.name(), mlp.hidden, mlp.intermediate});
          return parts;
        }(),
});

/// The ceilings that both read and write, like a dequantization.
std::vector<VariantInfo> ceilings() {
  const ProblemFacts facts = nf4::describe_problem(mlps.front().name(), mlps.front().matrix(), {});
  auto variants = ceiling_variants();
  std::erase_if(variants, [&](const VariantInfo& variant) {
    const Ceiling& ceiling = ceiling_named(variant.name);
    return ceiling.bytes_read(facts) == 0 || ceiling.bytes_written(facts) == 0;
  });
  return variants;
}

int dry_run(const Options& options, const std::vector<VariantInfo>& kernels) {
  std::string why_not;
  const auto gpu = profiling::find_gpu(&why_not);
  fmt::print("{} kernels and {} ceilings, {}: {} launches, {} samples of both ways\n",
             kernels.size(), ceilings().size(), facts_of(options.iterations).name,
             launches_of(options.iterations), options.samples);
  if (gpu) print_refusals(kernels, supports_all);
  fmt::print("{}\n", dry_run_place(gpu, why_not));
  return exit_verified;
}

Row row_of(int iterations, const VariantInfo& variant, const Verification& verified) {
  Row row = start_row(facts_of(iterations), variant, verified);
  if (!variant.is_ceiling()) return row;
  row.record.bytes_read = row.record.bytes_written = 0;
  const Ceiling& ceiling = ceiling_named(variant.name);
  for (const Mlp& mlp : mlps) {
    const ProblemFacts matrix = nf4::describe_problem(mlp.name(), mlp.matrix(), {});
    const auto times = static_cast<std::uint64_t>(matrices_per_mlp * iterations);
    row.record.bytes_read += times * ceiling.bytes_read(matrix);
    row.record.bytes_written += times * ceiling.bytes_written(matrix);
  }
  return row;
}

/// Measures in a worker process, which a kernel may crash.
std::vector<Record> measure(const Options& options, const std::vector<VariantInfo>& kernels,
                            UnfinishedRun& unfinished) {
  const std::string name = facts_of(options.iterations).name;
  const bool timed = options.pass.instrument != profiling::InstrumentKind::none;
  const auto serve = [&](const Worker::Json& request, const Watchdog& watchdog) -> Worker::Json {
    const auto instrument = profiling::make_instrument(options.pass.instrument);
    Puzzle puzzle(options.iterations, options.pass.seed, options.pass.experiment);
    std::vector<Row> rows;
    for (const auto& kernel : selected_kernels(request, kernels)) {
      rows.push_back(row_of(options.iterations, kernel, watchdog.turn(kernel.name, [&] {
        return puzzle.verify(kernel, *instrument);
      })));
    }
    if (timed) {
      for (const auto& ceiling : ceilings())
        rows.push_back(row_of(options.iterations, ceiling, {}));
      puzzle.exchange();
      take_samples(rows,
                   {.name = name,
                    .sample = [&](Row& row) { return puzzle.sample(row.record.variant); },
                    .sm_mhz = [&] { return puzzle.sm_mhz(); },
                    .prepare =
                        [&](Row& row) {
                          puzzle.prepare(row.record.variant);
                          return Sampled{};
                        }},
                   {.samples = options.samples, .seed = options.pass.seed}, watchdog);
    }
    return {{"records", records_of(std::move(rows))}};
  };
  Worker worker(serve, options.pass.limit(), &unfinished);
  return measure_in(worker, {{"name", name}}, kernels,
                    [&](const auto& kernel, const auto& why) {
                      return std::vector{row_of(options.iterations, kernel, why).record};
                    })
      .records;
}

int run(int argc, char** argv) {
  CLI::App app("Runs Unsloth's NF4 puzzle: three MLPs, dequantized many times.", "puzzle");
  Options options;
  add_pass_options(app, options.pass, {"events", "none"});
  app.add_option("--iterations", options.iterations,
                 "How often each MLP's up, gate and down are dequantized")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--samples", options.samples, "Runs per row, each in both ways")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  nf4::add_peer_option(app, options.peers);
  if (const auto status = parse(app, argc, argv)) return *status;
  const auto kernels = nf4::load_kernels(options.pass.kernel, options.peers);
  if (options.pass.describe) return print_description();
  refuse_names_of_ceilings(kernels);
  if (options.pass.dry_run) return dry_run(options, kernels);
  return run_pass(options.pass, {argv, argv + argc}, require_machine(),
                  [&](ResultFile& results, UnfinishedRun& unfinished) {
                    results.records = measure(options, kernels, unfinished);
                    for (const Record& record : results.records) {
                      fmt::print("{}\n", describe_row(record, {wall_time, kernel_time}));
                    }
                  });
}

}  // namespace
}  // namespace reprolab::puzzle

int main(int argc, char** argv) {
  return reprolab::run_program("puzzle", [&] { return reprolab::puzzle::run(argc, argv); });
}
