// replay: the dequantizations and matrix products of models' forward passes. `make
// reproduce-table2`.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>

#include "harness/errors.hpp"
#include "harness/family.hpp"
#include "harness/nf4/options.hpp"
#include "harness/pass.hpp"
#include "harness/programs/replay/replay.hpp"
#include "profiling/basics.hpp"
#include "profiling/machine.hpp"

namespace reprolab::nf4 {
namespace {

struct Options {
  PassOptions pass{
      .experiment = "replay", .pass = "replay", .instrument = profiling::InstrumentKind::activity};
  Protocol protocol = papers_protocol();
  std::vector<std::string> peers;
  TensorSpec format;  ///< The paper's: fp16, blocks of 64, plain scales.
};

void add_options(CLI::App& app, Options& options) {
  add_pass_options(app, options.pass, {"activity", "none"});
  app.add_option("--models", options.protocol.models, "Models to replay")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--batches", options.protocol.batches, "Rows of the matrix products")
      ->delimiter(',')
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--passes", options.protocol.profiled_passes, "Measured passes")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add_peer_option(app, options.peers);
}

double gb(std::uint64_t bytes) { return 1e-9 * static_cast<double>(bytes); }

int dry_run(const Options& options, const std::vector<Model>& models,
            const std::vector<VariantInfo>& kernels) {
  std::string why_not;
  const auto gpu = profiling::find_gpu(&why_not);
  fmt::print("{:<16} {:>8} {:>10} {:>16} {:>16}\n", "model", "layers", "launches",
             "weights resident", "working memory");
  for (const auto& model : models) {
    const std::uint64_t weights = pass_facts(model, options.format, 1).bytes_read;
    const std::uint64_t working =
        working_bytes(model, options.format, std::ranges::max(options.protocol.batches));
    fmt::print("{:<16} {:>8} {:>10} {:>13.1f} GB {:>13.1f} GB\n", model.id, model.layers,
               model.launches(), gb(weights), gb(working));
    if (!gpu) continue;
    if (weights + working > gpu->memory_bytes) {
      fmt::print(
          "  does not fit in this GPU's {:.1f} GB: the layers that fit are reused cyclically\n",
          gb(gpu->memory_bytes));
    }
    print_refusals(kernels, [&](const std::string& kernel) {
      return supports_all(model, options.format, kernel);
    });
  }
  fmt::print("{} kernels, batches {}, {} warm-up and {} measured passes each\n{}\n", kernels.size(),
             fmt::join(options.protocol.batches, ", "), options.protocol.warmup_passes,
             options.protocol.profiled_passes, dry_run_place(gpu, why_not));
  return exit_verified;
}

/// The results of one model.
struct ModelRows {
  std::vector<Record> records;
  nlohmann::ordered_json checks = nlohmann::ordered_json::array();
};

/// Replays models in a worker process, which a kernel may crash.
class Replays {
 public:
  Replays(const Options& options, const std::vector<Model>& models,
          const std::vector<VariantInfo>& kernels, UnfinishedRun& unfinished)
      : options_(options),
        models_(models),
        kernels_(kernels),
        worker_([this](const Worker::Json& request,
                       const Watchdog& watchdog) { return serve(request, watchdog); },
                options.pass.limit(), &unfinished) {}

  /// Adds a model's rows and checks to the results, and prints them.
  void run(std::size_t model, ResultFile& results) {
    const auto [records, answer] =
        measure_in(worker_, {{"name", models_[model].id}, {"model", model}}, kernels_,
                   [&](const auto& kernel, const auto& why) {
                     return all_batches(models_[model], kernel, why);
                   });
    for (const Record& record : records) {
      fmt::print("{}\n", describe_row(record, {kernel_time, product_time}));
      results.records.push_back(record);
    }
    if (answer.json.is_null()) return;
    for (const auto& check : answer.json.at("checks")) {
      const double first = check.at("first"), second = check.at("second");
      fmt::print("{}: {:.1f} and {:.1f} us, {:+.2f} % apart ({:g} % allowed)\n",
                 check.at("name").get<std::string>(), first, second,
                 100 * (first - second) / second, check.at("allowed_percent").get<double>());
      results.checks.push_back(check);
    }
  }

 private:
  std::vector<Record> all_batches(const Model& model, const VariantInfo& kernel,
                                  const Verification& why) const {
    std::vector<Record> rows;
    for (const int batch : options_.protocol.batches) {
      rows.push_back(start_row(pass_facts(model, options_.format, batch), kernel, why).record);
    }
    return rows;
  }

  /// Runs in the worker.
  Worker::Json serve(const Worker::Json& request, const Watchdog& watchdog) {
    // Created before the first CUDA call, because CUPTI records only what follows.
    if (!instrument_) instrument_ = profiling::make_instrument(options_.pass.instrument);
    const Model& model = models_.at(request.at("model"));
    const auto kernels = selected_kernels(request, kernels_);
    const int largest_batch = std::ranges::max(options_.protocol.batches);
    std::string why_none;
    const std::int64_t layers = layers_that_fit(model, options_.format, largest_batch,
                                                free_memory().device_bytes, why_none);
    ModelRows rows;
    if (layers > 0) {
      const profiling::Stream stream;
      const Comparisons comparisons(stream.get());
      Replay replay(model, options_.format, layers, largest_batch, options_.pass.seed,
                    options_.pass.experiment, comparisons, stream.get());
      measure(replay, model, layers, kernels, comparisons.state, watchdog, rows);
    } else {
      for (const auto& kernel : kernels) {
        std::ranges::move(all_batches(model, kernel, {Outcome::unsupported, why_none}),
                          std::back_inserter(rows.records));
      }
    }
    return {{"records", rows.records}, {"checks", rows.checks}};
  }

  void measure(Replay& replay, const Model& model, std::int64_t layers,
               const std::vector<VariantInfo>& kernels, const DeviceState& state,
               const Watchdog& watchdog, ModelRows& rows) {
    const bool timed = instrument_->kind() == profiling::InstrumentKind::activity;
    const SamplingPlan plan{.warmups = timed ? options_.protocol.warmup_passes : 0,
                            .samples = timed ? options_.protocol.profiled_passes : 1,
                            .seed = options_.pass.seed};
    std::map<std::string, Verification> verified;
    for (const auto& kernel : kernels) {
      verified[kernel.name] =
          watchdog.turn(kernel.name, [&] { return replay.verify(kernel, *instrument_); });
    }
    replay.exchange_matrices();
    std::string why_not;
    const auto gpu = profiling::find_gpu(&why_not).value_or(profiling::Gpu{});
    for (const int batch : options_.protocol.batches) {
      const ProblemFacts facts = pass_facts(model, options_.format, batch, layers);
      std::vector<Row> batch_rows;
      for (const auto& kernel : kernels) {
        Row& row = batch_rows.emplace_back(start_row(facts, kernel, verified[kernel.name]));
        row.min_us = min_pass_us(model, options_.format, gpu);
      }
      take_samples(
          batch_rows,
          {.name = facts.name,
           .sample = [&](Row& row) { return replay.pass(row.record.variant, batch, *instrument_); },
           .sm_mhz = [&] { return replay.sm_mhz(); }},
          plan, watchdog);
      for (Record& record : records_of(std::move(batch_rows))) {
        if (record.metric(kernel_time) && !record.metric(product_time)) {
          record.metrics.push_back(
              {.name = product_time, .unit = "us", .missing = Product::why_not()});
        }
        // A kernel that failed at one batch size is not run at the next.
        if (is_failure(record.outcome)) {
          verified[record.variant.name].outcome = record.outcome;
          verified[record.variant.name].reason = record.reason;
        }
        rows.records.push_back(std::move(record));
      }
    }
    for (const auto& kernel : kernels) {
      watchdog.turn(kernel.name, [&] {
        check_again(replay, kernel, verified[kernel.name], timed, state, rows);
      });
    }
  }

  /// Verifies every copy again: measurements do not count if an output has become wrong.
  void check_again(Replay& replay, const VariantInfo& kernel, Verification& last, bool timed,
                   const DeviceState& state, ModelRows& rows) {
    if (timed && may_be_timed(last.outcome)) {
      const Verification checked =
          run_or_fail(kernel, state, [&] { check_instruments(replay, kernel, rows); });
      if (checked.outcome != Outcome::not_verified) last = checked;
    }
    if (may_be_timed(last.outcome)) last = replay.verify_copies(kernel);
    for (Record& record : rows.records) {
      if (record.variant.name != kernel.name || record.outcome == last.outcome) continue;
      if (record.outcome == Outcome::not_measured && may_be_timed(last.outcome)) continue;
      withdraw(record, "after the samples", last);
    }
  }

  void check_instruments(Replay& replay, const VariantInfo& kernel, ModelRows& rows) {
    auto check = replay.check_instruments(kernel, *instrument_);
    for (const Record& record : rows.records) {
      if (record.variant.name == kernel.name) check["keys"].push_back(record.key);
    }
    rows.checks.push_back(std::move(check));
  }

  const Options& options_;
  const std::vector<Model>& models_;
  const std::vector<VariantInfo>& kernels_;
  std::unique_ptr<profiling::Instrument> instrument_;  ///< Used in the worker only.
  Worker worker_;
};

int run(int argc, char** argv) {
  CLI::App app("Replays the dequantizations and matrix products of models' forward passes.",
               "replay");
  Options options;
  add_options(app, options);
  if (const auto status = parse(app, argc, argv)) return *status;
  const auto models =
      select_models(read_models(project_root() / "data/models.json"), options.protocol.models);
  const auto kernels = load_kernels(options.pass.kernel, options.peers);
  if (options.pass.describe) return print_description();
  if (options.pass.dry_run) return dry_run(options, models, kernels);
  return run_pass(options.pass, {argv, argv + argc}, require_machine(),
                  [&](ResultFile& results, UnfinishedRun& unfinished) {
                    Replays replays(options, models, kernels, unfinished);
                    for (std::size_t model = 0; model < models.size(); ++model) {
                      replays.run(model, results);
                    }
                  });
}

}  // namespace
}  // namespace reprolab::nf4

int main(int argc, char** argv) {
  return reprolab::run_program("replay", [&] { return reprolab::nf4::run(argc, argv); });
}
