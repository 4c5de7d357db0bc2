// puzzle: Unsloth's NF4 puzzle, timed as published and through CUDA graphs. `make
// reproduce-puzzle`.
#include <fmt/format.h>

#include <algorithm>

#include "common/median.hpp"
#include "experiments/puzzle/puzzle.hpp"
#include "harness/ceilings.hpp"
#include "harness/errors.hpp"
#include "harness/family.hpp"
#include "harness/nf4/compiled_kernels.hpp"
#include "harness/nf4/options.hpp"
#include "harness/pass.hpp"
#include "profiling/machine.hpp"

namespace reprolab::puzzle {
namespace {

struct Options {
  // A turn is a whole run, twice: seconds on a small GPU.
  PassOptions pass{.experiment = "puzzle", .pass = "mlps", .limit_s = 120};
  RunFacts facts;
  int samples = 5;
  std::vector<std::string> peers;
};

/// Its kernels are nf4's.
const FamilyFacts puzzle_facts{
    .name = "puzzle",
    .element = "weight",
    .types = {{"fp16", 2}, {"bf16", 2}},
    .moves = "codes and scales read, weights written, each byte of each call once",
    .parts =
        [] {
          std::vector<FamilyFacts::Part> parts;
          for (const Mlp& mlp : mlps) parts.push_back({mlp.name(), mlp.hidden, mlp.intermediate});
          return parts;
        }(),
};
const RegisterFamily registered(puzzle_facts);

double gb(std::uint64_t bytes) { return 1e-9 * static_cast<double>(bytes); }

/// The ceilings that read and write, as a dequantization does.
std::vector<VariantInfo> ceilings() {
  const ProblemFacts facts = nf4::describe_problem(mlps.front().name(), mlps.front().matrix(), {});
  auto found = ceiling_variants();
  std::erase_if(found, [&](const VariantInfo& variant) {
    const Ceiling& ceiling = ceiling_named(variant.name);
    return ceiling.bytes_read(facts) == 0 || ceiling.bytes_written(facts) == 0;
  });
  return found;
}

/// Assumes a third of the theoretical bandwidth, as for one of the slower kernels on an H200, and
/// 10 us of the host's for every launch as published.
int dry_run(const Options& options, const std::vector<VariantInfo>& kernels) {
  std::string why_not;
  const auto gpu = profiling::find_gpu(&why_not);
  const double bandwidth = gpu ? gpu->theoretical_bandwidth_gb_s.value_or(1000) : 1000;
  nf4::print_languages_not_built(options.pass.kernel);
  fmt::print("{:<12} {:>7} {:>28} {:>12}\n", "MLP", "output", "weights in up, gate and down",
             "bytes moved");
  for (const Mlp& mlp : mlps) {
    const auto matrix = mlp.matrix();
    const std::uint64_t bytes = matrix.bytes_read() + matrix.bytes_written();
    fmt::print("{:<12} {:>7} {:>28} {:>9.2f} GB\n", mlp.name(), reference::name(mlp.output),
               matrices_per_mlp * matrix.weights(),
               gb(bytes * static_cast<std::uint64_t>(matrices_per_mlp * options.facts.iterations)));
  }
  const double moved = gb(options.facts.bytes_read() + options.facts.bytes_written());
  const double run_s = moved / (0.33 * bandwidth);
  const double host_s = 1e-5 * static_cast<double>(options.facts.launches());
  const auto rows = static_cast<double>(kernels.size() + ceilings().size());
  fmt::print(
      "{} kernels and {} ceilings, {}: {:.2f} GB in {} launches, {} samples of both ways: "
      "about {:.0f} s, and the time to make the data\n",
      kernels.size(), ceilings().size(), options.facts.name(), moved, options.facts.launches(),
      options.samples, rows * options.samples * (2 * run_s + host_s));
  if (gpu) print_refusals(kernels, supports_all);
  fmt::print("{}\n", dry_run_notes(options.pass, gpu));
  if (gpu) {
    fmt::print("on {} (compute capability {})\n", gpu->name, gpu->compute_capability);
  } else {
    fmt::print("none of this can run here: {} (times above are for 1000 GB/s)\n", why_not);
  }
  return exit_verified;
}

void describe(Record& record, const RunFacts& facts) {
  record.problem = facts.describe();
  record.bytes_read = facts.bytes_read();
  record.bytes_written = facts.bytes_written();
  if (!record.variant.is_ceiling()) return;
  record.bytes_read = record.bytes_written = 0;
  const Ceiling& ceiling = ceiling_named(record.variant.name);
  for (const Mlp& mlp : mlps) {
    const ProblemFacts matrix = nf4::describe_problem(mlp.name(), mlp.matrix(), {});
    const auto times = static_cast<std::uint64_t>(matrices_per_mlp * facts.iterations);
    record.bytes_read += times * ceiling.bytes_read(matrix);
    record.bytes_written += times * ceiling.bytes_written(matrix);
  }
}

void print(const Record& record) {
  const auto text = [&](const char* name, const char* what) {
    const Metric* time = record.metric(name);
    if (time == nullptr || time->samples.empty()) return fmt::format("{:>10} {}", "-", what);
    return fmt::format("{:>8.4f} s {}", 1e-6 * median(time->samples), what);
  };
  const Metric* graph = record.metric(kernel_time);
  const std::string missing = graph == nullptr ? "" : graph->missing;
  fmt::print("  {:<28} {}  {}  {}", record.variant.name, text(wall_time, "as published"),
             text(kernel_time, "by graphs"), name(record.outcome));
  for (const std::string& why : {record.reason, missing}) {
    if (!why.empty()) fmt::print(": {}", why);
  }
  fmt::print("\n");
}

std::vector<std::string> names_of(const std::vector<VariantInfo>& variants) {
  std::vector<std::string> names;
  for (const auto& variant : variants) names.push_back(variant.name);
  return names;
}

const VariantInfo& variant_named(const std::vector<VariantInfo>& variants,
                                 const std::string& name) {
  return *std::ranges::find(variants, name, &VariantInfo::name);
}

/// Tries in a process of its own whose launches can be captured: a library that meets an error in a
/// capture may end its process.
NotCapturable try_captures(const Options& options, const std::vector<VariantInfo>& kernels) {
  const auto serve = [&](const Worker::Json& request, const Watchdog& watchdog) -> Worker::Json {
    NotCapturable found;
    for (const auto& kernel : request.at("kernels").get<std::vector<std::string>>()) {
      watchdog.begin(kernel);
      const auto why = why_not_capturable(variant_named(kernels, kernel));
      if (!why.empty()) found[kernel] = why;
      watchdog.end();
    }
    return found;
  };
  Worker worker(serve, options.pass.limit());
  const auto answer = worker.ask({{"name", "a trial capture"}}, names_of(kernels));
  NotCapturable found;
  if (!answer.json.is_null()) found = answer.json.get<NotCapturable>();
  for (const auto& [kernel, reason, outcome] : answer.crashed) {
    if (is_failure(outcome)) found[kernel] = reason;
  }
  return found;
}

/// Measures in a worker process, and describes the rows of kernels that brought it down.
std::vector<Record> measure(const Options& options, const std::vector<VariantInfo>& kernels) {
  const bool timed = options.pass.instrument != profiling::InstrumentKind::none;
  const NotCapturable not_capturable = timed ? try_captures(options, kernels) : NotCapturable{};
  const auto variant = [&](const std::string& kernel) { return variant_named(kernels, kernel); };
  const auto serve = [&](const Worker::Json& request, const Watchdog& watchdog) -> Worker::Json {
    const auto instrument = profiling::make_instrument(options.pass.instrument);
    Puzzle puzzle(options.facts, options.pass.seed, options.pass.experiment, not_capturable);
    std::vector<Row> rows;
    for (const auto& kernel : request.at("kernels").get<std::vector<std::string>>()) {
      watchdog.begin(kernel);
      const Verification verified = puzzle.verify(variant(kernel), *instrument);
      rows.push_back(start_row(options.facts.name(), variant(kernel), verified));
      watchdog.end();
    }
    if (timed) {
      for (const auto& ceiling : ceilings()) {
        rows.push_back(start_row(options.facts.name(), ceiling, {}));
      }
    }
    for (Row& row : rows) describe(row.record, options.facts);
    if (timed) {
      puzzle.exchange();
      puzzle.show_progress(std::ranges::count_if(rows, &Row::timed) * options.samples);
      take_samples(rows, puzzle, *instrument,
                   {.samples = options.samples, .seed = options.pass.seed}, watchdog);
    }
    std::vector<Record> records;
    for (Row& row : rows) records.push_back(std::move(row.record));
    return records;
  };
  Worker worker(serve, options.pass.limit());
  const auto answer = worker.ask({{"name", options.facts.name()}}, names_of(kernels));
  std::vector<Record> records;
  if (!answer.json.is_null()) records = answer.json.get<std::vector<Record>>();
  for (const auto& [kernel, reason, outcome] : answer.crashed) {
    Row row = start_row(options.facts.name(), variant(kernel), {outcome, reason, {}});
    describe(row.record, options.facts);
    records.push_back(std::move(row.record));
  }
  return records;
}

int run(int argc, char** argv) {
  CLI::App app("Runs Unsloth's NF4 puzzle: three MLPs, dequantized many times.", "puzzle");
  Options options;
  add_pass_options(app, options.pass);
  app.add_option("--iterations", options.facts.iterations,
                 "How often each MLP's up, gate and down are dequantized")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--samples", options.samples, "Runs per row, each in both ways")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  nf4::add_peer_option(app, options.peers);
  if (const auto status = parse(app, argc, argv)) return *status;
  using profiling::InstrumentKind;
  if (options.pass.instrument != InstrumentKind::events &&
      options.pass.instrument != InstrumentKind::none) {
    throw UsageError(
        "--instrument: the puzzle is timed by the host's clock and by events; give events or none");
  }
  nf4::load_compiled_kernels();
  nf4::load_peers(options.peers);
  if (options.pass.describe) return print_description();
  const auto kernels = nf4::select_kernels(options.pass.kernel);
  refuse_names_of_ceilings(kernels);
  if (options.pass.dry_run) return dry_run(options, kernels);
  return run_pass(options.pass, {argv, argv + argc}, require_machine(), [&](ResultFile& results) {
    nf4::print_languages_not_built(options.pass.kernel);
    results.records = measure(options, kernels);
    fmt::print("{}, median of {} samples\n", options.facts.name(), options.samples);
    std::ranges::for_each(results.records, print);
  });
}

}  // namespace
}  // namespace reprolab::puzzle

int main(int argc, char** argv) {
  return reprolab::run_program("puzzle", [&] { return reprolab::puzzle::run(argc, argv); });
}
