// Kernels alone, one problem at a time: verified, timed cold in a shuffled order, verified again.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/harness/device_compare.hpp"
#include "experiments/harness/family.hpp"
#include "profiling/event_timer.hpp"
#include "profiling/instrument.hpp"
#include "profiling/sm_clock_probe.hpp"

namespace reprolab {

struct MeasureOptions {
  std::string experiment;  ///< For NVTX ranges.
  int samples = 21;        ///< Batches a variant.
  double batch_us = 2000;  ///< GPU time that a batch aims at.
  std::uint64_t seed = 1;  ///< Of the data, where a problem is prepared, and of the samples' order.
  bool ceilings = true;    ///< Measure them as well.
  profiling::Instrument instrument = profiling::Instrument::events;
};

/// The ceilings measured beside every problem.
std::vector<VariantInfo> ceiling_variants();

/// Throws UsageError where a kernel has the name of one: their rows would have the same keys.
void refuse_names_of_ceilings(const std::vector<VariantInfo>& kernels);

class Measurement {
 public:
  Measurement();

  /// A record for each variant of `variants`, and for each ceiling. With Instrument::none every
  /// supported kernel is verified, which launches it once a slot, and nothing is timed.
  std::vector<Record> run(const Workload& workload, const std::vector<VariantInfo>& variants,
                          const MeasureOptions& options);

  /// Prepares the problem, in as many slots as a cold run wants on a GPU whose L2 has `l2_bytes`
  /// (in one where nothing is timed), and runs it. Where it does not fit, every record is
  /// "unsupported" and says so.
  std::vector<Record> run(const PlannedProblem& planned, const std::vector<VariantInfo>& variants,
                          const MeasureOptions& options, std::uint64_t l2_bytes);

 private:
  profiling::Stream stream_;
  DeviceComparison comparison_;
  profiling::EventTimer timer_;
  profiling::SmClockProbe probe_;
};

}  // namespace reprolab
