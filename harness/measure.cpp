#include "harness/measure.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <stdexcept>

#include "harness/errors.hpp"
#include "profiling/ceilings.hpp"

namespace reprolab {
namespace {

using profiling::InstrumentKind;

std::uint64_t nothing(const ProblemFacts&) { return 0; }
std::uint64_t read(const ProblemFacts& facts) { return facts.bytes_read; }
std::uint64_t written(const ProblemFacts& facts) { return facts.bytes_written; }
/// Bytes of the larger of input and output.
std::uint64_t larger(const ProblemFacts& facts) { return std::max(read(facts), written(facts)); }
/// A copy reads and writes as many bytes in total as a launch, limited by the size of one output.
/// It is rounded down by less than 1 %, to eight binary digits: cudaMemcpy loses up to a quarter of
/// its speed if only small powers of two divide the count (10552320 bytes on an H200).
std::uint64_t copied(const ProblemFacts& facts) {
  const auto bytes = std::min((facts.bytes_read + facts.bytes_written) / 2, facts.bytes_written);
  return bytes - bytes % std::max(std::bit_floor(bytes) >> 7, std::uint64_t{1});
}

/// A buffer set's output from an aligned address on, if a problem has an offset; the memory there
/// belongs to the buffer set. At other multiples of 16 bytes a ceiling is slower (at 1024 x 4096
/// weights by 6 % on an H200).
void* output(const Workload& workload, int buffer_set) {
  auto* const start = static_cast<std::byte*>(workload.output(buffer_set));
  return start - reinterpret_cast<std::uintptr_t>(start) % profiling::DeviceBuffer::alignment;
}

/// Copies from a buffer set written a full rotation ago to the buffer set before it, which was just
/// read.
template <void copy(void*, const void*, std::uint64_t, cudaStream_t)>
void launch_copy(const Workload& workload, int buffer_set, cudaStream_t stream) {
  const int before = (buffer_set + workload.buffer_sets() - 1) % workload.buffer_sets();
  copy(output(workload, before), output(workload, buffer_set), copied(workload.facts()), stream);
}

void launch_read(const Workload& workload, int buffer_set, cudaStream_t stream) {
  const ProblemFacts& facts = workload.facts();
  const void* const from = facts.bytes_read > facts.bytes_written
                               ? workload.input(buffer_set).data()
                               : output(workload, buffer_set);
  profiling::ceilings::read_only(from, larger(facts), stream);
}

void launch_same_bytes(const Workload& workload, int buffer_set, cudaStream_t stream) {
  profiling::ceilings::same_bytes(workload.input(buffer_set).data(), workload.facts().bytes_read,
                                  output(workload, buffer_set), workload.facts().bytes_written,
                                  stream);
}

void launch_write(const Workload& workload, int buffer_set, cudaStream_t stream) {
  profiling::ceilings::write_only(output(workload, buffer_set), workload.facts().bytes_written,
                                  stream);
}

constexpr Ceiling all_ceilings[] = {
    {"copy", "cudaMemcpy, device to device", copied, copied,
     launch_copy<profiling::ceilings::copy>},
    {"copy_kernel", "the same copy by a kernel, in the fastest form known", copied, copied,
     launch_copy<profiling::ceilings::copy_kernel>},
    {"read_only", "loads, no stores", larger, nothing, launch_read},
    {"same_bytes", "the same bytes, nothing computed, in the fastest form known", read, written,
     launch_same_bytes},
    {"write_only", "stores, no loads", nothing, written, launch_write},
};

Row row_of(const ProblemFacts& facts, const VariantInfo& variant, const Verification& verified) {
  Row row = start_row(facts, variant, verified);
  if (variant.is_ceiling()) {
    row.record.bytes_read = ceiling_named(variant.name).bytes_read(facts);
    row.record.bytes_written = ceiling_named(variant.name).bytes_written(facts);
  }
  return row;
}

/// Samples the rows of one workload. A sample is a batch of launches, which rotate over the buffer
/// sets, or use one if the problem is warm. A warm batch starts with its buffer set in the cache,
/// as far as it fits: the output was just poisoned, and the input compared after the previous
/// sample.
struct Batches {
  const Workload& workload;
  Verifier& verifier;
  profiling::Instrument& instrument;
  cudaStream_t stream;
  const MeasureOptions& options;
  bool warm;
  int max_launches;               ///< Per batch.
  const profiling::Gpu* cold_on;  ///< Null unless buffer sets evict each other from its cache.
  /// Shared by all rows, so that no row starts on a buffer set that another row has just used.
  int next_buffer_set = 0;
  std::random_device random{};

  static constexpr unsigned batches_per_check = 4;  ///< For warm problems.

  /// Runs the longest batch to determine the number of calls of a batch of the target length.
  Sampled prepare(Row& row) {
    if (options.counted) return {};  // one call, whose time is not measured
    const VariantInfo& variant = row.record.variant;
    if (variant.is_ceiling()) launch_ceiling(variant, {0, 1});  // loads its module
    row.calls = max_launches;
    auto sampled = sample(row);
    row.calls = calls_of_batch(sampled.sample, options.batch_us, max_launches);
    if (cold_on != nullptr) {
      row.min_us = min_us(row.record.bytes_read + row.record.bytes_written, row.calls, *cold_on);
    }
    return sampled;
  }

  Sampled sample(Row& row) {
    const VariantInfo& variant = row.record.variant;
    Launches launches =
        warm ? Launches{warm_buffer_set, row.calls, false} : Launches{next_buffer_set, row.calls};
    next_buffer_set = (next_buffer_set + row.calls) % workload.buffer_sets();
    if (variant.is_ceiling()) {
      return repeat_if_late([&] { return sample_ceiling(variant, launches); });
    }
    if (warm && random() % batches_per_check == 0) {
      launches.check_repeats = true;  // in an untimed batch, which a kernel cannot detect
      const auto checked = verifier.sample(variant, launches, instrument);
      if (is_failure(checked.written.outcome)) return checked;
      launches.check_repeats = false;
    }
    return verifier.sample(variant, launches, instrument);
  }

  /// A batch that starts like a kernel's batch, with the same memory in the cache.
  Sampled sample_ceiling(const VariantInfo& variant, Launches launches) const {
    verifier.poison(launches);
    return {instrument.measure(
                {.name = variant.name,
                 .calls = launches.calls,
                 .per_call = true,
                 .enqueue = [&](cudaStream_t,
                                const profiling::Call&) { launch_ceiling(variant, launches); },
                 .held = true,
                 .while_blocked = [&] { verifier.written_already(launches); }},
                stream),
            {}};
  }

  void launch_ceiling(const VariantInfo& variant, Launches launches) const {
    const Ceiling& ceiling = ceiling_named(variant.name);
    for (int i = 0; i < launches.calls; ++i) {
      ceiling.launch(workload, launches.buffer_set(i, workload.buffer_sets()), stream);
    }
  }
};

/// Whether that ceiling bounds the kernels of such a problem.
Support ceiling_supports(std::string_view name, const ProblemFacts& facts) {
  if (name == "read_only" || facts.bytes_read / 16 <= facts.bytes_written) return Support::yes();
  return Support::no("outputs are small beside inputs: read_only is this problem's ceiling");
}

}  // namespace

std::vector<VariantInfo> ceiling_variants() {
  std::vector<VariantInfo> variants;
  for (const Ceiling& ceiling : all_ceilings) {
    VariantInfo& variant = variants.emplace_back();
    variant.name = ceiling.name;
    variant.origin.kind = Origin::Kind::ceiling;
    variant.lineage = ceiling.what;
    variant.source_file = "profiling/ceilings.cu";
  }
  return variants;
}

const Ceiling& ceiling_named(std::string_view name) {
  for (const Ceiling& ceiling : all_ceilings) {
    if (ceiling.name == name) return ceiling;
  }
  throw std::logic_error(fmt::format("no ceiling '{}'", name));
}

void refuse_names_of_ceilings(const std::vector<VariantInfo>& kernels) {
  for (const Ceiling& ceiling : all_ceilings) {
    if (std::ranges::find(kernels, ceiling.name, &VariantInfo::name) != kernels.end()) {
      throw UsageError(
          fmt::format("kernel '{}' has the name of a ceiling; rename it", ceiling.name));
    }
  }
}

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

Record record_without_run(const ProblemFacts& facts, const VariantInfo& variant,
                          const Verification& why) {
  return row_of(facts, variant, why).record;
}

std::vector<VariantInfo> ceilings_measured_by(InstrumentKind instrument) {
  return instrument == InstrumentKind::events ? ceiling_variants() : std::vector<VariantInfo>{};
}

Measurement::Measurement(const profiling::Gpu& gpu,
                         std::unique_ptr<profiling::Instrument> instrument)
    : gpu_(gpu), instrument_(std::move(instrument)) {
  // Verification launches batches; counting each of their calls would be slow and useless.
  if (instrument_->kind() == InstrumentKind::counters) {
    verifying_ = profiling::make_instrument(InstrumentKind::none);
  }
}

std::vector<Record> Measurement::run(const PlannedProblem& planned,
                                     const std::vector<VariantInfo>& variants,
                                     const MeasureOptions& options, const Watchdog& watchdog) {
  const ProblemFacts& facts = planned.facts;
  const bool timed = planned.timed && instrument_->kind() != InstrumentKind::none;
  std::vector<VariantInfo> all = variants;
  if (timed) {
    const auto ceilings = ceilings_measured_by(instrument_->kind());
    all.insert(all.end(), ceilings.begin(), ceilings.end());
  }
  const Rotation rotation = timed ? rotation_for(gpu_, options) : Rotation{};
  const BufferSets buffer_sets =
      buffer_sets_for(planned, rotation, free_memory(), timed ? min_buffer_sets : 1);
  if (buffer_sets.count == 0) {
    std::vector<Record> records;
    for (const auto& variant : all) {
      records.push_back(
          record_without_run(facts, variant, {Outcome::unsupported, buffer_sets.why_none}));
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
      verified = watchdog.turn(variant.name, [&] {
        return verifier.verify(variant, verifying_ ? *verifying_ : *instrument_);
      });
    } else if (const Support support = ceiling_supports(variant.name, facts); !support.ok) {
      verified = {Outcome::unsupported, support.reason};
    }
    rows.push_back(row_of(facts, variant, verified));
  }
  if (timed) {
    workload->exchange();
    verifier.protect_memory();
    const int most = max_launches(planned, rotation, buffer_sets.count);
    Batches batches{.workload = *workload,
                    .verifier = verifier,
                    .instrument = *instrument_,
                    .stream = stream_.get(),
                    .options = options,
                    .warm = planned.warm,
                    .max_launches = std::min(most, profiling::max_blocked_launches),
                    .cold_on = buffer_sets.cold ? &gpu_ : nullptr};
    take_samples(rows,
                 {.name = facts.name,
                  .sample = [&](Row& row) { return batches.sample(row); },
                  .sm_mhz = [&] { return probe_.mhz(stream_.get()); },
                  .prepare = [&](Row& row) { return batches.prepare(row); }},
                 {.samples = options.samples, .seed = options.seed}, watchdog);
  }
  return records_of(std::move(rows));
}

}  // namespace reprolab
