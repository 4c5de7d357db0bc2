// The one loop that takes samples, for anything sampled with any instrument: in a seeded shuffle
// over the rows of a problem; each sample is verified before it counts.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/verification.hpp"
#include "harness/worker.hpp"

namespace reprolab {

/// A row that is being sampled: its record, and the loop's state for it.
struct Row {
  Record record;
  int calls = 1;  ///< Calls of the kernel in one sample.
  /// A kernel_time below this is impossible: the row's bytes take this long at this GPU's
  /// theoretical bandwidth. Zero if that is not known, or if the bytes may be in a cache.
  double min_us = 0;
  std::optional<double> sm_mhz_before{};
  std::vector<double> sm_mhz{};  ///< Read directly after each sample.

  const std::string& kernel() const { return record.variant.name; }
  /// Ceilings are not verified; one that failed is not timed either.
  bool timed() const {
    const bool sound_ceiling =
        record.variant.is_ceiling() && record.outcome == Outcome::not_verified;
    return sound_ceiling || may_be_timed(record.outcome);
  }
};

/// A row whose kernel was verified, before its first sample.
Row start_row(const ProblemFacts& problem, const VariantInfo& variant,
              const Verification& verified);

std::vector<Record> records_of(std::vector<Row> rows);

/// Discards the measurements of a row that turned out to fail; `when` says when that was found.
void withdraw(Record& record, const std::string& when, const Verification& why);

/// The rows of one problem, as the sampling loop sees them.
struct Subject {
  std::string name;  ///< The problem's; each problem has an order of its own.
  /// Runs a row's launches once through an instrument, and verifies what they wrote. The outcome
  /// not_verified means that the row's outcome so far stands.
  std::function<Sampled(Row& row)> sample;
  std::function<std::optional<double>()> sm_mhz;  ///< The SM clock at this moment.
  /// Prepares a row before its first sample, and returns what it ran for that, if anything; it is
  /// verified like a warm-up. Empty: there is nothing to prepare.
  std::function<Sampled(Row& row)> prepare{};
};

struct SamplingPlan {
  int warmups = 0, samples = 21;  ///< Rounds; warm-up rounds leave no sample.
  std::uint64_t seed = 1;         ///< Seed of the order.
};

/// Fills the rows' metrics, launch facts and clocks. A row whose output is wrong in any sample,
/// whose work escapes the instrument, or which is faster than memory allows, loses them all and is
/// not sampled further.
void take_samples(std::vector<Row>& rows, const Subject& subject, const SamplingPlan& plan,
                  const Watchdog& watchdog);

}  // namespace reprolab
