// Measures single kernels, one problem at a time: verified, timed with cold caches (warm ones for a
// warm problem) in a shuffled order, and verified again after every sample.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "harness/family.hpp"
#include "harness/sampling.hpp"
#include "profiling/event_timer.hpp"
#include "profiling/machine.hpp"

namespace reprolab {

struct MeasureOptions {
  std::string experiment = "bench";  ///< For NVTX ranges.
  int samples = 21;                  ///< Batches per row.
  double batch_us = 1000;            ///< Target GPU time of a batch.
  bool counted = false;              ///< Counters are the instrument: a batch is one call.
  /// Seed of a problem's data and of the order of samples.
  std::uint64_t seed = 1;
};

/// The sizes that determine the number of buffer sets of a run on this GPU.
Rotation rotation_for(const profiling::Gpu& gpu, const MeasureOptions& options);

/// The number of calls in a batch of `batch_us`, estimated from the kernel_time of a sample of
/// `most` calls. `most` if the sample has no kernel_time.
int calls_of_batch(const profiling::Sample& sample, double batch_us, int most);

/// Minimum time in microseconds of a call in a cold batch: its bytes, less those that the cache may
/// contain before and after the batch, over the GPU's theoretical bandwidth. 0 if the bandwidth is
/// unknown.
double min_us(std::uint64_t bytes, int calls, const profiling::Gpu& gpu);

/// A ceiling: the memory's speed for the bytes of a problem, measured together with its kernels. It
/// is launched on the memory of a workload's buffer set.
struct Ceiling {
  const char* name;
  const char* what;
  std::uint64_t (*bytes_read)(const ProblemFacts& facts);
  std::uint64_t (*bytes_written)(const ProblemFacts& facts);
  void (*launch)(const Workload& workload, int buffer_set, cudaStream_t stream);
};

/// Each ceiling as a row.
std::vector<VariantInfo> ceiling_variants();

/// The ceiling of that name, which must exist.
const Ceiling& ceiling_named(std::string_view name);

/// Throws UsageError if a kernel has the name of a ceiling: their rows would have the same keys.
void refuse_names_of_ceilings(const std::vector<VariantInfo>& kernels);

/// The ceilings that are measured with kernels.
std::vector<VariantInfo> ceilings_measured_by(profiling::InstrumentKind instrument);

class Measurement {
 public:
  /// `gpu`: a cold run must exceed its L2 cache, and no row can exceed its bandwidth.
  Measurement(const profiling::Gpu& gpu, std::unique_ptr<profiling::Instrument> instrument);

  /// Returns a record for each variant and each ceiling. Prepares the problem in as many buffer
  /// sets as a cold run needs, or as fit; if fewer than the minimum fit, every record is
  /// "unsupported" and says so. Without an instrument, or if the problem is not to be timed, every
  /// supported kernel is only verified, with two launches. With counters, kernels are verified
  /// without an instrument and counted in the samples.
  std::vector<Record> run(const PlannedProblem& planned, const std::vector<VariantInfo>& variants,
                          const MeasureOptions& options, const Watchdog& watchdog = {});

 private:
  profiling::Gpu gpu_;
  std::unique_ptr<profiling::Instrument> instrument_;
  std::unique_ptr<profiling::Instrument> verifying_;  ///< Null: the same.
  profiling::Stream stream_;
  Comparisons comparisons_{stream_.get()};
  profiling::SmClockProbe probe_;
};

/// A record of a kernel that did not run.
Record record_without_run(const ProblemFacts& facts, const VariantInfo& variant,
                          const Verification& why);

}  // namespace reprolab
