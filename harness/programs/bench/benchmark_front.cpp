#include "harness/programs/bench/benchmark_front.hpp"

#include <benchmark/benchmark.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>

#include "harness/errors.hpp"
#include "harness/selection.hpp"

namespace reprolab::bench {
namespace {

void tell(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  int count = static_cast<int>(words.size());
  benchmark::Initialize(&count, pointers.data());
  if (count > 1) {
    throw UsageError(std::string("unknown option '") + pointers[1] + "'; see bench --help");
  }
}

/// Captures what Google Benchmark prints in list mode.
class Listing : public benchmark::BenchmarkReporter {
 public:
  Listing() {
    SetOutputStream(&names_);
    SetErrorStream(&errors_);
  }
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}

  /// The listed rows, by our names.
  std::vector<std::string> names() {
    std::vector<std::string> names;
    for (std::string line; std::getline(names_, line);) {
      names.push_back(line.substr(0, line.rfind("/iterations:")));
    }
    return names;
  }

 private:
  std::stringstream names_, errors_;
};

/// The registered rows that --benchmark_filter selects.
std::vector<std::string> selected_rows() {
  Listing listing;
  tell({"bench", "--benchmark_list_tests=true"});
  benchmark::RunSpecifiedBenchmarks(&listing);
  tell({"bench", "--benchmark_list_tests=false"});
  auto names = listing.names();
  if (names.empty()) {
    throw UsageError(
        fmt::format("--benchmark_filter '{}' selects nothing; --benchmark_list_tests lists the "
                    "rows",
                    benchmark::GetBenchmarkFilter()));
  }
  return names;
}

void report(benchmark::State& state, const Record& record, std::size_t& repetition) {
  const Metric* time = record.metric(kernel_time);
  if (time == nullptr) {
    state.SkipWithError(describe_ending(record).c_str());
    return;
  }
  const double us = time->samples[repetition++ % time->samples.size()];
  for (auto _ : state) state.SetIterationTime(1e-6 * us);
  const auto bytes = static_cast<double>(record.bytes_read + record.bytes_written);
  state.counters["TB/s"] = bytes / us * 1e-6;
  if (const auto& sm_mhz = record.clocks.sm_mhz_during) {
    state.counters["B/cycle"] = bytes / (us * *sm_mhz);
  }
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

/// Google Benchmark's console with one line per row: the median, or the reason for having none.
class MedianConsole : public benchmark::ConsoleReporter {
 public:
  explicit MedianConsole(std::string context)
      : ConsoleReporter(isatty(STDOUT_FILENO) ? OO_ColorTabular : OO_Tabular),
        context_(std::move(context)) {}

  /// Prints our context instead of Google Benchmark's, whose clock, build and CPU frequency have no
  /// effect on these times.
  bool ReportContext(const Context& context) override {
    name_field_width_ = context.name_field_width;
    printed_header_ = false;
    prev_counters_.clear();
    GetOutputStream() << context_;
    return true;
  }

  void ReportRuns(const std::vector<Run>& runs) override {
    std::vector<Run> kept;
    std::ranges::copy_if(runs, std::back_inserter(kept), [](const Run& run) {
      const bool alone = run.repetitions <= 1 || has_failed(run);
      return run.run_type == Run::RT_Aggregate ? run.aggregate_name == "median"
                                               : alone && run.repetition_index <= 0;
    });
    // Removes the settings with which Google Benchmark replays our samples from a row's name.
    for (Run& run : kept) {
      run.run_name.iterations.clear();
      run.run_name.repetitions.clear();
      run.run_name.time_type.clear();
    }
    benchmark::ConsoleReporter::ReportRuns(kept);
  }

 private:
  std::string context_;
};

using RecordOf = std::function<const Record&(const Group& group, const std::string& kernel)>;

/// Registers a row for each kernel and ceiling of each group.
void register_rows(const std::vector<Group>& groups, const std::vector<VariantInfo>& ceilings,
                   int samples, const RecordOf& record_of) {
  for (const Group& group : groups) {
    std::vector<VariantInfo> rows = group.kernels;
    rows.insert(rows.end(), ceilings.begin(), ceilings.end());
    for (const auto& name : names_of(rows)) {
      benchmark::RegisterBenchmark(
          row_name(group, name).c_str(),
          [&record_of, &group, name, repetition = std::size_t{0}](benchmark::State& state) mutable {
            report(state, record_of(group, name), repetition);
          })
          ->UseManualTime()
          ->Iterations(1)
          ->Repetitions(samples)
          ->Unit(benchmark::kMicrosecond);
    }
  }
}

}  // namespace

std::string row_name(const Group& group, const std::string& kernel) {
  return group.family->name() + "/" + group.planned.facts.name + "/" + kernel;
}

bool initialize_benchmark(const std::string& program, std::vector<std::string> words) {
  for (const auto& word : words) {
    for (const char* flag : {"--benchmark_enable_random_interleaving", "--benchmark_repetitions",
                             "--benchmark_format"}) {
      if (!word.starts_with(flag)) continue;
      throw UsageError(std::string(flag) +
                       ": not supported; samples are always interleaved (--seed, --samples), and "
                       "--benchmark_out writes files");
    }
  }
  const bool only_lists = std::ranges::any_of(words, [](const std::string& word) {
    return word.starts_with("--benchmark_list_tests") && !word.ends_with("=false");
  });
  words.insert(words.begin(), program);
  tell(std::move(words));
  return only_lists;
}

void list_benchmarks(const std::vector<Group>& groups, const std::vector<VariantInfo>& ceilings) {
  register_rows(groups, ceilings, 1, {});
  for (const auto& row : selected_rows()) fmt::print("{}\n", row);
}

std::vector<Record> run_benchmarks(const std::vector<Group>& groups,
                                   const std::vector<VariantInfo>& ceilings, int samples,
                                   const std::string& context, const MeasureGroup& measure) {
  std::set<std::string> selected;
  std::vector<std::vector<Record>> measured;  // by group; the rows of one follow each other
  const Group* last = nullptr;
  const RecordOf record_of = [&](const Group& group, const std::string& kernel) -> const Record& {
    if (last != &group) {
      std::vector<VariantInfo> kernels = group.kernels;
      std::erase_if(kernels, [&](const VariantInfo& one) {
        return !selected.contains(row_name(group, one.name));
      });
      measured.push_back(measure(group, kernels));
      last = &group;
    }
    return *std::ranges::find(measured.back(), kernel,
                              [](const Record& record) { return record.variant.name; });
  };
  register_rows(groups, ceilings, samples, record_of);
  const auto rows = selected_rows();
  selected = {rows.begin(), rows.end()};
  MedianConsole console(context);
  benchmark::RunSpecifiedBenchmarks(&console);
  benchmark::Shutdown();
  std::vector<Record> all;
  for (const auto& records : measured) std::ranges::copy(records, std::back_inserter(all));
  return all;
}

}  // namespace reprolab::bench
