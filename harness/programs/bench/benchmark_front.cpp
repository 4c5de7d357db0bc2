#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <regex>
#include <utility>

#include "harness/errors.hpp"
#include "harness/programs/bench/bench.hpp"
#include "harness/selection.hpp"
#include "profiling/basics.hpp"

namespace reprolab::bench {
namespace {

/// A row as one run of a benchmark: the median of its samples, or the reason for having none.
void report(benchmark::State& state, const Record& record) {
  const Metric* time = record.metric(kernel_time);
  if (time == nullptr || time->samples.empty()) {
    state.SkipWithError(describe_ending(record).c_str());
    return;
  }
  const double us = median(time->samples);
  for (auto _ : state) state.SetIterationTime(1e-6 * us);
  const auto bytes = static_cast<double>(record.bytes_read + record.bytes_written);
  state.counters["TB/s"] = bytes / us * 1e-6;
  if (const auto& sm_mhz = record.clocks.sm_mhz_during) {
    state.counters["B/cycle"] = bytes / (us * *sm_mhz);
  }
  if (record.outcome == Outcome::deviation_as_declared) state.SetLabel("deviation as declared");
}

/// Google Benchmark's console with our context and our names of rows.
class Console : public benchmark::ConsoleReporter {
 public:
  explicit Console(std::string context)
      : ConsoleReporter(isatty(STDOUT_FILENO) ? OO_ColorTabular : OO_Tabular),
        context_(std::move(context)) {}

  /// Google Benchmark's clock, build and CPU frequency have no effect on these times.
  bool ReportContext(const Context& context) override {
    name_field_width_ = context.name_field_width;
    printed_header_ = false;
    prev_counters_.clear();
    GetOutputStream() << context_;
    return true;
  }

  void ReportRuns(const std::vector<Run>& runs) override {
    std::vector<Run> named = runs;
    for (Run& run : named) {
      run.run_name.iterations.clear();
      run.run_name.time_type.clear();
    }
    benchmark::ConsoleReporter::ReportRuns(named);
  }

 private:
  std::string context_;
};

}  // namespace

void initialize_benchmark(const std::string& program, std::vector<std::string> words) {
  for (const auto& word : words) {
    for (const char* flag : {"--benchmark_enable_random_interleaving", "--benchmark_repetitions",
                             "--benchmark_format", "--benchmark_list_tests"}) {
      if (!word.starts_with(flag)) continue;
      throw UsageError(std::string(flag) +
                       ": not supported; samples are always interleaved (--seed, --samples), "
                       "--benchmark_out writes files, and --dry-run lists the problems");
    }
  }
  words.insert(words.begin(), program);
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  int count = static_cast<int>(words.size());
  benchmark::Initialize(&count, pointers.data());
  if (count > 1) {
    throw UsageError(std::string("unknown option '") + pointers[1] + "'; see bench --help");
  }
}

std::vector<Record> run_benchmarks(const std::vector<Group>& groups,
                                   const std::vector<VariantInfo>& ceilings,
                                   const std::string& context, const MeasureGroup& measure) {
  std::vector<Record> all, measured;  // `measured`: of the group whose rows are run
  const Group* last = nullptr;
  for (const Group& group : groups) {
    std::vector<std::string> names = names_of(group.kernels);
    std::ranges::copy(names_of(ceilings), std::back_inserter(names));
    for (const auto& kernel : names) {
      const auto run = [&, kernel](benchmark::State& state) {
        if (std::exchange(last, &group) != &group) {
          measured = measure(group);
          std::ranges::copy(measured, std::back_inserter(all));
        }
        report(state, *std::ranges::find(measured, kernel,
                                         [](const Record& record) { return record.variant.name; }));
      };
      const auto name = group.family->name() + "/" + group.planned.facts.name + "/" + kernel;
      benchmark::RegisterBenchmark(name.c_str(), run)
          ->UseManualTime()
          ->Iterations(1)
          ->Unit(benchmark::kMicrosecond);
    }
  }
  Console console(context);
  // Google Benchmark's names go on after the kernel; "$$" stands for "$".
  const std::string filter = std::regex_replace(benchmark::GetBenchmarkFilter(),
                                                std::regex("(/iterations:1/manual_time)?\\$"),
                                                "/iterations:1/manual_time$$");
  if (benchmark::RunSpecifiedBenchmarks(&console, filter) == 0) {
    throw UsageError(
        "--benchmark_filter selects no FAMILY/PROBLEM/KERNEL; see --list and --dry-run");
  }
  benchmark::Shutdown();
  return all;
}

}  // namespace reprolab::bench
