// The only loop that takes samples, with any instrument: in a seeded shuffle of the rows of a
// problem. Each sample is verified before it counts: whether a launch failed, whether the device
// state is unchanged, and whether the time is that of its work.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/result_file.hpp"
#include "harness/verifier.hpp"
#include "harness/worker.hpp"

namespace reprolab {

/// A row that is being sampled: its record, and the loop's state for it.
struct Row {
  Record record;
  int calls = 1;  ///< Calls of the kernel in one sample.
  /// A kernel_time below this is impossible: the row's bytes take this long at the GPU's
  /// theoretical bandwidth. Zero if the bandwidth is unknown, or if the bytes may be in a cache.
  double min_us = 0;
  std::optional<double> sm_mhz_before{};
  std::vector<double> sm_mhz{};  ///< Read directly after each sample.

  const std::string& kernel() const { return record.variant.name; }
  /// Ceilings are not verified; a failed ceiling is not timed.
  bool timed() const {
    const bool sound_ceiling =
        record.variant.is_ceiling() && record.outcome == Outcome::not_verified;
    return sound_ceiling || may_be_timed(record.outcome);
  }
};

/// A row whose kernel was verified, before its first sample.
Row start_row(const ProblemFacts& problem, const VariantInfo& variant,
              const Verification& verified);

/// Withdraws the rows of one problem whose time is far below that of writing its output alone, or
/// of reading its input where that is larger: ceilings of the same run, cold or warm. In 17,269
/// recorded rows the quotient is at least 1.09, and 0.99 where it is of reading.
inline constexpr double least_share = 0.8;
void refuse_impossible_times(std::vector<Record>& records);

/// The records of one problem's rows, without impossible times.
std::vector<Record> records_of(std::vector<Row> rows);

/// Discards the measurements of a row whose failure was found later; `when` says when.
void withdraw(Record& record, const std::string& when, const Verification& why);

/// The rows of one problem, as the sampling loop uses them.
struct Subject {
  std::string name;  ///< The problem's seed; each problem has its own order.
  /// Runs a row's launches once through an instrument, and verifies their outputs. The outcome
  /// not_verified leaves the row's earlier outcome unchanged.
  std::function<Sampled(Row& row)> sample;
  std::function<std::optional<double>()> sm_mhz;  ///< The SM clock at this moment.
  /// Prepares a row before its first sample, and returns the launches that this ran, if any; they
  /// are verified like a warm-up. Empty: nothing to prepare.
  std::function<Sampled(Row& row)> prepare{};
};

struct SamplingPlan {
  int warmups = 0, samples = 21;  ///< Rounds; warm-up rounds leave no sample.
  std::uint64_t seed = 1;         ///< Seed of the order.
};

/// Fills the rows' metrics, launch facts and clocks. A row whose output is wrong in any sample,
/// whose work escapes the instrument, or whose time is impossibly short, loses all of them and is
/// not sampled further.
void take_samples(std::vector<Row>& rows, const Subject& subject, const SamplingPlan& plan,
                  const Watchdog& watchdog);

}  // namespace reprolab
