// table2_replay: the forward-pass half of the paper's Table II. `make reproduce-table2`.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "experiments/harness/command_line.hpp"
#include "experiments/harness/errors.hpp"
#include "experiments/harness/provenance.hpp"
#include "experiments/harness/selection.hpp"
#include "experiments/harness/shuffle.hpp"
#include "experiments/harness/statistics.hpp"
#include "experiments/harness/verdict.hpp"
#include "experiments/nf4/peers.hpp"
#include "experiments/table2/protocol.hpp"
#include "experiments/table2/replay.hpp"
#include "experiments/table2/report.hpp"
#include "experiments/table2/verdicts.hpp"

namespace reprolab::table2 {
namespace {

struct Options {
  std::vector<std::string> models, peers;
  std::string kernel, output, instrument = "activity";
  int passes = measured_passes;
  std::uint64_t seed = 1;
  bool dry_run = false;
};

void add_options(CLI::App& app, Options& options) {
  for (const auto& column : model_columns) options.models.emplace_back(column.model);
  app.add_option("--models", options.models, "Models to replay")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--kernel", options.kernel, "Kernels whose whole name matches (regex)");
  app.add_option("--peer", options.peers, "A libbitsandbytes_cuda*.so (or NAME=path) to run too")
      ->allow_extra_args(false);
  app.add_option("--passes", options.passes, "Measured passes, after one to warm up")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Of the weights and of the order of passes")
      ->check(CLI::Range(0, 2147483647))
      ->capture_default_str();
  app.add_option("--instrument", options.instrument,
                 "activity, or none: verify and run each pass once, for ncu and nsys")
      ->check(CLI::IsMember({"activity", "none"}))
      ->capture_default_str();
  app.add_option("--output", options.output, "Write the result file there");
  app.add_flag("--dry-run", options.dry_run, "Say what would run, how long it takes, and exit");
}

/// One model through all batches, its rows appended to `results`.
class ModelRun {
 public:
  ModelRun(const nf4::Model& model, const std::vector<VariantInfo>& kernels, const Options& options,
           const DeviceComparison& comparison, cudaStream_t stream,
           profiling::ActivityRecorder* recorder, ResultFile& results)
      : model_(model),
        kernels_(kernels),
        options_(options),
        recorder_(recorder),
        results_(results),
        replay_(model, batches.back(), options.seed, comparison, stream) {}

  void run() {
    fmt::print("{}: {} of {} layers resident, {} launches a pass\n", model_.id,
               replay_.layers_resident(), model_.layers, model_.launches());
    for (const auto& kernel : kernels_) verified_.push_back(replay_.verify(kernel));
    const std::size_t first = results_.records.size();
    for (const int batch : batches) run_batch(batch);
    if (recorder_ != nullptr) check_instruments();
    verify_again(first);
  }

 private:
  void run_batch(int batch) {
    std::vector<Record> rows;
    for (std::size_t i = 0; i < kernels_.size(); ++i) rows.push_back(start_row(i, batch));
    std::vector<std::vector<double>> sm_mhz(rows.size());  // the first: of the warm-up
    SampleOrder order(rows.size(),
                      problem_seed(options_.seed, fmt::format("{}/batch{}", model_.id, batch)));
    const int passes = recorder_ == nullptr ? 1 : warmup_passes + options_.passes;
    for (int pass = 0; pass < passes; ++pass) {
      for (const std::size_t i : order.next_round()) {
        if (!may_be_timed(verified_[i].outcome)) continue;
        const PassTime time = replay_.pass(kernels_[i], batch, recorder_);
        if (time.sm_mhz > 0) sm_mhz[i].push_back(time.sm_mhz);
        if (pass < warmup_passes) continue;
        rows[i].samples_us.push_back(time.dequantize_us);
        rows[i].product_samples_us.push_back(time.product_us);
      }
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (sm_mhz[i].empty()) continue;
      const double before = sm_mhz[i].front();
      if (sm_mhz[i].size() > 1) sm_mhz[i].erase(sm_mhz[i].begin());
      rows[i].clocks = {before, summarize(sm_mhz[i]).median, sm_mhz[i].back()};
    }
    fmt::print(" batch {}\n", batch);
    print_rows(rows);
    results_.records.insert(results_.records.end(), rows.begin(), rows.end());
  }

  Record start_row(std::size_t kernel, int batch) const {
    const std::string problem = fmt::format("{}/batch{}", model_.id, batch);
    Record row;
    row.key = problem + "/" + kernels_[kernel].name;
    row.variant = kernels_[kernel];
    row.problem = {{"name", problem},
                   {"family", "nf4"},
                   {"model", model_.id},
                   {"batch", batch},
                   {"layers", model_.layers},
                   {"layers_resident", replay_.layers_resident()},
                   {"launches", model_.launches()},
                   {"weights", model_.weights()},
                   {"weights_resident", replay_.weights_resident()},
                   {"block_size", 64},
                   {"output", "fp16"}};
    row.outcome = verified_[kernel].outcome;
    row.reason = verified_[kernel].reason;
    if (!verified_[kernel].found.equal()) row.mismatches = verified_[kernel].found.mismatches;
    row.bytes_read = layer_bytes(model_) * static_cast<std::uint64_t>(model_.layers);
    row.bytes_written = 2 * static_cast<std::uint64_t>(model_.weights());
    return row;
  }

  void check_instruments() {
    fmt::print(" instruments, dequantizations alone\n");
    for (std::size_t i = 0; i < kernels_.size(); ++i) {
      if (!may_be_timed(verified_[i].outcome)) continue;
      results_.checks.push_back(replay_.check_instruments(kernels_[i], *recorder_));
      print_check(results_.checks.back());
    }
  }

  /// Every copy once more, after the timed passes; a time is withdrawn where one is wrong.
  void verify_again(std::size_t first) {
    for (std::size_t i = 0; i < kernels_.size(); ++i) {
      if (!may_be_timed(verified_[i].outcome)) continue;
      const Verification again = replay_.verify_copies(kernels_[i]);
      if (again.outcome == verified_[i].outcome) continue;
      for (std::size_t row = first; row < results_.records.size(); ++row) {
        Record& record = results_.records[row];
        if (record.variant.name != kernels_[i].name) continue;
        record.outcome = again.outcome;
        record.reason = "after timing: " + again.reason;
        record.samples_us.clear();
        record.product_samples_us.clear();
      }
      fmt::print("  {}: {} after timing: {}\n", kernels_[i].name, name(again.outcome),
                 again.reason);
    }
  }

  const nf4::Model& model_;
  const std::vector<VariantInfo>& kernels_;
  const Options& options_;
  profiling::ActivityRecorder* recorder_;
  ResultFile& results_;
  Replay replay_;
  std::vector<Verification> verified_;
};

int run(int argc, char** argv) {
  CLI::App app("Replays the dequantizations and matrix products of models' forward passes.",
               "table2_replay");
  Options options;
  add_options(app, options);
  if (const auto status = parse(app, argc, argv)) return *status;
  const auto models = nf4::select_models(
      nf4::read_models(project_root() / "data/models/models.json"), options.models);
  const auto published = read_json(project_root() / "data/published/published.json");
  nf4::load_peers(options.peers);
  const auto kernels = select_kernels(options.kernel, registered_variants<nf4::Problem>());
  if (options.dry_run) {
    std::string why_not;
    const auto gpu = profiling::find_gpu(&why_not);
    print_plan(models, static_cast<int>(kernels.size()), warmup_passes + options.passes, gpu,
               why_not);
    return exit_verified;
  }

  const auto instrument = profiling::parse_instrument(options.instrument);
  reference::prove_comparison();
  if (!options.output.empty()) require_writable(options.output);
  PassObserver observer(to_strings(argc, argv), instrument, options.seed);
  std::optional<profiling::ActivityRecorder> recorder;
  if (instrument == profiling::Instrument::activity) recorder.emplace().start();
  const profiling::Stream stream;
  const DeviceComparison comparison(stream.get());
  ResultFile results{.experiment = "table2", .pass = "replay"};
  for (const auto& model : models) {
    ModelRun(model, kernels, options, comparison, stream.get(), recorder ? &*recorder : nullptr,
             results)
        .run();
  }
  if (recorder) {
    results.verdicts = decide(results.records, results.checks, published);
    print_verdicts(results.verdicts,
                   [](const VerdictRecord& verdict) { return verdict.claim != "kernel-speedup"; });
  }
  results.provenance = observer.describe();
  if (!options.output.empty()) write_whole(options.output, results.to_json().dump(1) + "\n");
  return results.exit_status();
}

}  // namespace
}  // namespace reprolab::table2

int main(int argc, char** argv) {
  return reprolab::run_program("table2_replay", [&] { return reprolab::table2::run(argc, argv); });
}
