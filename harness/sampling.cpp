#include "harness/sampling.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "harness/provenance.hpp"
#include "profiling/basics.hpp"

namespace reprolab {
namespace {

void add_reading(Record& record, const profiling::Reading& reading) {
  auto metric = std::ranges::find(record.metrics, reading.name, &Metric::name);
  if (metric == record.metrics.end()) {
    metric = record.metrics.insert(metric, {.name = reading.name, .unit = reading.unit});
  }
  if (metric->missing.empty()) metric->samples.push_back(reading.value);
}

/// A metric that one sample lacks is removed from the row: samples of one row with the same index
/// belong together.
void add_missing(Record& record, const profiling::Missing& missing) {
  const auto [name, unit, why] = missing;
  const auto metric = std::ranges::find(record.metrics, name, &Metric::name);
  if (metric == record.metrics.end()) {
    record.metrics.push_back({.name = name, .unit = unit, .missing = why});
  } else if (metric->missing.empty()) {
    *metric = {.name = name, .unit = unit, .missing = why};
  }
}

using nlohmann::ordered_json;

ordered_json describe(const profiling::KernelActivity& kernel) {
  const auto& fitting = kernel.blocks_per_multiprocessor;
  return {{"name", kernel.name},
          {"grid", kernel.grid},
          {"block", kernel.block},
          {"registers", kernel.registers_per_thread},
          {"static_shared_bytes", kernel.static_shared_bytes},
          {"dynamic_shared_bytes", kernel.dynamic_shared_bytes},
          {"blocks_per_multiprocessor", fitting ? ordered_json(*fitting) : nullptr}};
}

/// The maximum number of kernels that one call launched, and each distinct kernel once.
ordered_json describe(const std::vector<std::vector<profiling::KernelActivity>>& calls) {
  std::ptrdiff_t most = 0;
  auto distinct = ordered_json::array();
  for (const auto& call : calls) {
    most = std::max(most, std::ranges::count_if(call, &profiling::KernelActivity::is_kernel));
    for (const auto& kernel : call) {
      if (!kernel.is_kernel) continue;
      const ordered_json described = describe(kernel);
      if (std::find(distinct.begin(), distinct.end(), described) == distinct.end()) {
        distinct.push_back(described);
      }
    }
  }
  return {{"kernels_per_call", most}, {"kernels", distinct}};
}

/// Why the sample's time is impossible; empty if it is possible.
std::string impossible(const Row& row, const profiling::Sample& sample) {
  for (const auto& reading : sample.readings) {
    if (reading.name != kernel_time || reading.value > row.min_us) continue;
    if (reading.value <= 0) return "took no time: the instrument recorded none of its work";
    const auto bytes = static_cast<double>(row.record.bytes_read + row.record.bytes_written);
    return fmt::format(
        "took {:.3g} us, but on cold data this GPU's memory needs at least {:.3g} us for its "
        "{:.3g} MB: its work cannot all be done in that time",
        reading.value, row.min_us, 1e-6 * bytes);
  }
  return "";
}

void add(Row& row, int round, const Sampled& sampled) {
  const std::string when = round < 0 ? "in the warm-up" : fmt::format("in sample {}", round + 1);
  const Outcome written = sampled.written.outcome;
  if (written != Outcome::not_verified && written != row.record.outcome) {
    Verification why = sampled.written;
    if (may_be_timed(written)) {
      why = {Outcome::mismatch, fmt::format("its output is {}, and was {} when it was verified",
                                            name(written), name(row.record.outcome))};
    }
    return withdraw(row.record, when, why);
  }
  if (const std::string why = impossible(row, sampled.sample); !why.empty()) {
    return withdraw(row.record, when, {Outcome::launch_failed, why});
  }
  if (round < 0) return;
  for (const auto& reading : sampled.sample.readings) add_reading(row.record, reading);
  for (const auto& missing : sampled.sample.missing) add_missing(row.record, missing);
  if (row.record.launch.is_null() && !sampled.sample.launched.empty()) {
    row.record.launch = describe(sampled.sample.launched);
  }
}

}  // namespace

void refuse_impossible_times(std::vector<Record>& records) {
  const auto time_of = [](const Record& record) {
    const Metric* time = record.metric(kernel_time);
    return time && !time->samples.empty() ? median(time->samples) : 0;
  };
  const auto time_of_ceiling = [&](const char* ceiling) {
    const auto found = std::ranges::find_if(records, [&](const Record& record) {
      return record.variant.is_ceiling() && record.variant.name == ceiling;
    });
    return found == records.end() ? 0 : time_of(*found);
  };
  const double write_us = time_of_ceiling("write_only"), read_us = time_of_ceiling("read_only");
  for (Record& record : records) {
    const bool reads = record.bytes_read > record.bytes_written;
    const double time = time_of(record), ceiling = reads ? read_us : write_us;
    if (record.variant.is_ceiling() || time <= 0 || time >= least_share * ceiling) continue;
    withdraw(
        record, "in all samples",
        {Outcome::launch_failed,
         fmt::format("took {:.3g} us, but only to {} takes this GPU {:.3g} us: its work cannot "
                     "all be done in that time",
                     time, reads ? "read its input" : "write its output", ceiling)});
    record.clocks = {};
  }
}

std::vector<Record> records_of(std::vector<Row> rows) {
  std::vector<Record> records;
  for (Row& row : rows) records.push_back(std::move(row.record));
  refuse_impossible_times(records);
  return records;
}

void withdraw(Record& record, const std::string& when, const Verification& why) {
  record.outcome = why.outcome;
  record.reason = when + ": " + why.reason;
  record.mismatches.reset();
  if (!why.comparison.equal()) record.mismatches = why.comparison.mismatches;
  record.metrics.clear();
  record.launch = nullptr;
}

Row start_row(const ProblemFacts& problem, const VariantInfo& variant,
              const Verification& verified) {
  Row row{.record = {.key = problem.name + "/" + variant.name,
                     .variant = variant,
                     .code = code_of(variant),
                     .problem = described(problem),
                     .bytes_read = problem.bytes_read,
                     .bytes_written = problem.bytes_written}};
  row.record.outcome = verified.outcome;
  row.record.reason = verified.reason;
  if (!verified.comparison.equal()) row.record.mismatches = verified.comparison.mismatches;
  row.record.findings = verified.findings;
  return row;
}

void take_samples(std::vector<Row>& rows, const Subject& subject, const SamplingPlan& plan,
                  const Watchdog& watchdog) {
  for (Row& row : rows) {
    if (!row.timed()) continue;
    watchdog.turn(row.kernel(), [&] {
      if (subject.prepare) add(row, -1, subject.prepare(row));
      row.sm_mhz_before = subject.sm_mhz();
    });
  }
  // With the run's seed alone, every variant would follow the same neighbour in all problems.
  std::mt19937_64 random(plan.seed ^ fnv1a(subject.name));
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (int round = -plan.warmups; round < plan.samples; ++round) {
    // Fisher-Yates: the same order on every machine, which std::shuffle does not promise.
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
    for (const std::size_t i : order) {
      Row& row = rows[i];
      if (!row.timed()) continue;
      watchdog.turn(row.kernel(), [&] {
        add(row, round, subject.sample(row));
        if (const auto mhz = subject.sm_mhz(); mhz && round >= 0) row.sm_mhz.push_back(*mhz);
      });
    }
  }
  for (Row& row : rows) {
    if (!row.timed() || row.sm_mhz.empty()) continue;
    row.record.clocks = {row.sm_mhz_before, median(row.sm_mhz), row.sm_mhz.back()};
  }
}

}  // namespace reprolab
