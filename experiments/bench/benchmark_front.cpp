#include "experiments/bench/benchmark_front.hpp"

#include <benchmark/benchmark.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <regex>

namespace reprolab::bench {
namespace {

std::string row_name(const Group& group, const std::string& variant) {
  return group.family + "/" + group.planned.facts.name + "/" + variant;
}

/// What benchmark::RunSpecifiedBenchmarks will select.
bool passes_filter(const std::string& name, int samples) {
  std::string filter = benchmark::GetBenchmarkFilter();
  if (filter.empty() || filter == "all") filter = ".";
  const bool negative = filter.front() == '-';
  const std::regex pattern(negative ? filter.substr(1) : filter, std::regex::extended);
  const std::string full_name =
      fmt::format("{}/iterations:1/repeats:{}/manual_time", name, samples);
  return std::regex_search(full_name, pattern) != negative;
}

/// Measures a group when the first of its rows is asked for; one group holds memory at a time.
class Groups {
 public:
  Groups(const std::vector<Group>& groups, const MeasureOptions& options, std::uint64_t l2_bytes)
      : groups_(groups), options_(options), l2_bytes_(l2_bytes) {}

  const Record& record(std::size_t group, const std::string& variant) {
    if (measured_ != static_cast<std::ptrdiff_t>(group)) measure(group);
    return *std::ranges::find(records_.begin() + static_cast<std::ptrdiff_t>(first_),
                              records_.end(), variant,
                              [](const Record& record) { return record.variant.name; });
  }

  std::vector<Record> take() { return std::move(records_); }

 private:
  void measure(std::size_t index) {
    const Group& group = groups_[index];
    std::vector<VariantInfo> selected;
    std::ranges::copy_if(group.kernels, std::back_inserter(selected), [&](const auto& kernel) {
      return passes_filter(row_name(group, kernel.name), options_.samples);
    });
    if (!measurement_) measurement_ = std::make_unique<Measurement>();
    first_ = records_.size();
    const auto records = measurement_->run(group.planned, selected, options_, l2_bytes_);
    records_.insert(records_.end(), records.begin(), records.end());
    measured_ = static_cast<std::ptrdiff_t>(index);
  }

  const std::vector<Group>& groups_;
  const MeasureOptions& options_;
  std::uint64_t l2_bytes_;
  std::unique_ptr<Measurement> measurement_;
  std::vector<Record> records_;
  std::size_t first_ = 0;  ///< Of the group measured last.
  std::ptrdiff_t measured_ = -1;
};

void report(benchmark::State& state, const Record& record, std::size_t& repetition) {
  if (record.samples_us.empty()) {
    const std::string why = std::string(name(record.outcome)) + ": " + record.reason;
    state.SkipWithError(why.c_str());
    return;
  }
  const double us = record.samples_us[repetition++ % record.samples_us.size()];
  for (auto _ : state) state.SetIterationTime(1e-6 * us);
  state.counters["TB/s"] =
      static_cast<double>(record.bytes_read + record.bytes_written) / us * 1e-6;
  if (record.outcome == Outcome::deviation_as_declared) state.SetLabel("deviation as declared");
}

template <class Run>
bool has_failed(const Run& run) {
  if constexpr (requires { run.error_occurred; }) {
    return run.error_occurred;  // Google Benchmark up to 1.7
  } else {
    return static_cast<bool>(run.skipped);
  }
}

/// The console that users know, one line a row: the median, or why there is none.
class MedianConsole : public benchmark::ConsoleReporter {
 public:
  MedianConsole() : ConsoleReporter(isatty(STDOUT_FILENO) ? OO_ColorTabular : OO_Tabular) {}

  void ReportRuns(const std::vector<Run>& runs) override {
    std::vector<Run> kept;
    std::ranges::copy_if(runs, std::back_inserter(kept), [](const Run& run) {
      const bool alone = run.repetitions <= 1 || has_failed(run);
      return run.run_type == Run::RT_Aggregate ? run.aggregate_name == "median"
                                               : alone && run.repetition_index <= 0;
    });
    // How Google Benchmark was made to take our samples is no part of a row's name.
    for (Run& run : kept) {
      run.run_name.iterations.clear();
      run.run_name.repetitions.clear();
      run.run_name.time_type.clear();
    }
    benchmark::ConsoleReporter::ReportRuns(kept);
  }
};

}  // namespace

std::vector<Record> run_benchmarks(const std::vector<Group>& groups, const MeasureOptions& options,
                                   std::uint64_t l2_bytes) {
  Groups measured(groups, options, l2_bytes);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    std::vector<VariantInfo> rows = groups[i].kernels;
    if (options.ceilings) {
      const auto ceilings = ceiling_variants();
      rows.insert(rows.end(), ceilings.begin(), ceilings.end());
    }
    for (const auto& row : rows) {
      benchmark::RegisterBenchmark(row_name(groups[i], row.name).c_str(),
                                   [&measured, i, variant = row.name,
                                    repetition = std::size_t{0}](benchmark::State& state) mutable {
                                     report(state, measured.record(i, variant), repetition);
                                   })
          ->UseManualTime()
          ->Iterations(1)
          ->Repetitions(options.samples)
          ->Unit(benchmark::kMicrosecond);
    }
  }
  MedianConsole console;
  benchmark::RunSpecifiedBenchmarks(&console);
  benchmark::Shutdown();
  return measured.take();
}

std::vector<Record> run_without_timing(const std::vector<Group>& groups,
                                       const MeasureOptions& options) {
  Measurement measurement;
  std::vector<Record> all;
  for (const Group& group : groups) {
    for (const Record& record : measurement.run(group.planned, group.kernels, options, 0)) {
      fmt::print("{}: {}{}{}\n", row_name(group, record.variant.name), name(record.outcome),
                 record.reason.empty() ? "" : ": ", record.reason);
      all.push_back(record);
    }
  }
  return all;
}

}  // namespace reprolab::bench
