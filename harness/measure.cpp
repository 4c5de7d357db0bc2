#include "harness/measure.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "harness/ceilings.hpp"

namespace reprolab {
namespace {

using profiling::InstrumentKind;

/// Copies the facts of a problem to a record.
void describe(Record& record, const ProblemFacts& facts) {
  record.problem = facts.description;
  record.bytes_read = facts.bytes_read;
  record.bytes_written = facts.bytes_written;
  if (record.variant.is_ceiling()) {
    const Ceiling& ceiling = ceiling_named(record.variant.name);
    record.bytes_read = ceiling.bytes_read(facts);
    record.bytes_written = ceiling.bytes_written(facts);
  }
}

/// The rows of one workload, in batches of launches that rotate over its buffer sets, or that stay
/// in one if the problem is warm. A batch then begins with its buffer set in the cache, as far as
/// that fits: the output was just poisoned, and the input compared after the sample before.
class Batches : public Subject {
 public:
  /// `max_launches`: of a batch. `cold_on`: the GPU, if the buffer sets keep each other out of its
  /// cache; otherwise null.
  Batches(const Workload& workload, bool warm, int max_launches, Verifier& verifier,
          cudaStream_t stream, profiling::SmClockProbe& probe, const MeasureOptions& options,
          const profiling::Gpu* cold_on)
      : workload_(workload),
        warm_(warm),
        max_launches_(std::min(max_launches, profiling::max_blocked_launches)),
        verifier_(verifier),
        stream_(stream),
        probe_(probe),
        options_(options),
        cold_on_(cold_on) {}

  std::string name() const override { return workload_.facts().name; }

  /// Runs the longest batch to find how many calls a batch of the wanted length takes.
  Verifier::Sampled prepare(Row& row, profiling::Instrument& instrument) override {
    if (options_.counted) return {};  // one call, which takes no time of its own
    const VariantInfo& variant = row.record.variant;
    if (variant.is_ceiling()) launch_ceiling(variant, {0, 1}, stream_);  // loads its module
    row.calls = max_launches_;
    auto sampled = sample(row, instrument);
    row.calls = calls_of_batch(sampled.sample, options_.batch_us, max_launches_);
    if (cold_on_ != nullptr) {
      row.min_us = min_us(row.record.bytes_read + row.record.bytes_written, row.calls, *cold_on_);
    }
    return sampled;
  }

  Verifier::Sampled sample(Row& row, profiling::Instrument& instrument) override {
    const VariantInfo& variant = row.record.variant;
    Launches launches =
        warm_ ? Launches{warm_buffer_set, row.calls, false} : Launches{next_buffer_set_, row.calls};
    next_buffer_set_ = (next_buffer_set_ + row.calls) % workload_.buffer_sets();
    if (warm_ && !variant.is_ceiling() && random_() % batches_per_check == 0) {
      launches.check_repeats = true;  // in a batch that is not timed, which the kernel cannot know
      const auto checked = verifier_.sample(variant, launches, instrument);
      if (is_failure(checked.written.outcome)) return checked;
      launches.check_repeats = false;
    }
    if (!variant.is_ceiling()) return verifier_.sample(variant, launches, instrument);
    return repeat_if_late([&] { return sample_ceiling(variant, launches, instrument); });
  }

  std::optional<double> sm_mhz() override { return probe_.mhz(stream_); }

 private:
  /// A batch that begins as a kernel's does, with the same memory in the cache.
  Verifier::Sampled sample_ceiling(const VariantInfo& variant, Launches launches,
                                   profiling::Instrument& instrument) const {
    verifier_.poison(launches);
    return {instrument.measure({.name = variant.name,
                                .calls = launches.calls,
                                .per_call = true,
                                .enqueue =
                                    [&](cudaStream_t stream, const profiling::Call&) {
                                      launch_ceiling(variant, launches, stream);
                                    },
                                .held = true,
                                .while_blocked = [&] { verifier_.written_already(launches); }},
                               stream_),
            {}};
  }

  void launch_ceiling(const VariantInfo& variant, Launches launches, cudaStream_t stream) const {
    const Ceiling& ceiling = ceiling_named(variant.name);
    for (int i = 0; i < launches.calls; ++i) {
      ceiling.launch(workload_, launches.buffer_set(i, workload_.buffer_sets()), stream);
    }
  }

  const Workload& workload_;
  bool warm_;
  int max_launches_;
  Verifier& verifier_;
  cudaStream_t stream_;
  profiling::SmClockProbe& probe_;
  const MeasureOptions& options_;
  const profiling::Gpu* cold_on_;
  static constexpr unsigned batches_per_check = 4;  ///< Of a warm problem.
  std::random_device random_;
  int next_buffer_set_ =
      0;  ///< Shared by all rows: none begins on a buffer set just used by another.
};

}  // namespace

Rotation rotation_for(const profiling::Gpu& gpu, const MeasureOptions& options) {
  const double batch_us = options.counted ? 0 : options.batch_us;
  return {.l2_bytes = gpu.l2_bytes,
          .batch_bytes = static_cast<std::uint64_t>(
              1e3 * gpu.theoretical_bandwidth_gb_s.value_or(0) * batch_us)};
}

int calls_of_batch(const profiling::Sample& sample, double batch_us, int most) {
  const auto time = std::ranges::find(sample.readings, kernel_time, &profiling::Reading::name);
  if (time == sample.readings.end()) return most;
  const double calls = std::ceil(batch_us / std::max(time->value, 0.01));
  return static_cast<int>(std::clamp(calls, 1.0, static_cast<double>(most)));
}

double min_us(std::uint64_t bytes, int calls, const profiling::Gpu& gpu) {
  if (!gpu.theoretical_bandwidth_gb_s) return 0;
  const double cached = 2.0 * static_cast<double>(gpu.l2_bytes) / calls;
  return 1e-3 * std::max(0.0, static_cast<double>(bytes) - cached) /
         *gpu.theoretical_bandwidth_gb_s;
}

Record record_without_run(const ProblemFacts& facts, const VariantInfo& variant, Outcome outcome,
                          const std::string& reason) {
  Record record = start_row(facts.name, variant, {outcome, reason, {}}).record;
  describe(record, facts);
  return record;
}

std::vector<VariantInfo> Measurement::ceilings(const MeasureOptions& options,
                                               InstrumentKind instrument) {
  const bool measured = options.ceilings && instrument == InstrumentKind::events;
  return measured ? ceiling_variants() : std::vector<VariantInfo>{};
}

Measurement::Measurement(const profiling::Gpu& gpu,
                         std::unique_ptr<profiling::Instrument> instrument)
    : gpu_(gpu), instrument_(std::move(instrument)) {
  // Verification launches batches; to count each of their calls would take long and tell nothing.
  if (instrument_->kind() == InstrumentKind::counters) {
    verifying_ = profiling::make_instrument(InstrumentKind::none);
  }
}

std::vector<Record> Measurement::run(const PlannedProblem& planned,
                                     const std::vector<VariantInfo>& variants,
                                     const MeasureOptions& options, const Watchdog& watchdog) {
  refuse_names_of_ceilings(variants);
  const ProblemFacts& facts = planned.facts;
  const bool timed = planned.timed && instrument_->kind() != InstrumentKind::none;
  std::vector<VariantInfo> all = variants;
  if (timed) {
    const auto ceilings = Measurement::ceilings(options, instrument_->kind());
    all.insert(all.end(), ceilings.begin(), ceilings.end());
  }
  std::vector<Record> records;
  const Rotation rotation = timed ? rotation_for(gpu_, options) : Rotation{};
  const BufferSets buffer_sets =
      buffer_sets_for(planned, rotation, free_memory(), timed ? min_buffer_sets : 1);
  if (buffer_sets.count == 0) {
    for (const auto& variant : all) {
      records.push_back(
          record_without_run(facts, variant, Outcome::unsupported, buffer_sets.why_none));
    }
    return records;
  }
  const auto workload = planned.prepare(timed ? buffer_sets.count : 1, options.seed);
  Verifier verifier(*workload, comparisons_, stream_.get(), options.experiment);
  std::vector<Row> rows;
  for (const auto& variant : all) {
    Verification verified;
    if (!variant.is_ceiling()) {
      verifier.prepare(variant);
      watchdog.begin(variant.name);
      verified = verifier.verify(variant, verifying_ ? *verifying_ : *instrument_);
      watchdog.end();
    } else if (const Support support = ceiling_supports(variant.name, facts); !support.ok) {
      verified = {Outcome::unsupported, support.reason};
    }
    describe(rows.emplace_back(start_row(facts.name, variant, verified)).record, facts);
  }
  if (timed) {
    workload->exchange();
    verifier.protect_memory();
    Batches batches(*workload, planned.warm, max_launches(planned, rotation, buffer_sets.count),
                    verifier, stream_.get(), probe_, options, buffer_sets.cold ? &gpu_ : nullptr);
    take_samples(rows, batches, *instrument_, {.samples = options.samples, .seed = options.seed},
                 watchdog);
  }
  for (Row& row : rows) records.push_back(std::move(row.record));
  return records;
}

}  // namespace reprolab
