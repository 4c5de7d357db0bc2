#include "experiments/harness/measure.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "experiments/harness/errors.hpp"
#include "experiments/harness/shuffle.hpp"
#include "experiments/harness/slots.hpp"
#include "experiments/harness/statistics.hpp"
#include "experiments/harness/verifier.hpp"
#include "profiling/ceilings.hpp"
#include "profiling/nvtx.hpp"

namespace reprolab {
namespace {

constexpr int max_launches_a_batch = 500;  // what a stream's queue holds without blocking the host

/// One variant on its way through a workload.
struct Lane {
  VariantInfo variant;
  Verification verification{};
  std::vector<double> samples_us{};
  std::optional<double> sm_mhz_before{};
  std::vector<double> sm_mhz{};  ///< Right behind each batch.
  int launches = 1;              ///< A batch.
  int waited_for_host = 0;       ///< Batches in which the GPU had to wait.

  bool timed() const { return variant.role == Role::ceiling || may_be_timed(verification.outcome); }
};

/// Bytes of one launch.
struct Moved {
  std::uint64_t read = 0, written = 0;
};

/// A copy moves as many bytes as a launch reads and writes, as far as one output can hold them.
std::uint64_t copied_bytes(const ProblemFacts& facts) {
  return std::min((facts.bytes_read + facts.bytes_written) / 2, facts.bytes_written);
}

Moved copied(const ProblemFacts& facts) { return {copied_bytes(facts), copied_bytes(facts)}; }

/// From a slot that was written a whole rotation ago to the one before it, just read.
template <void copy(void*, const void*, std::uint64_t, cudaStream_t)>
void launch_copy(const Workload& workload, int slot, cudaStream_t stream) {
  const int before = (slot + workload.slots() - 1) % workload.slots();
  copy(workload.traffic(before).written, workload.traffic(slot).written,
       copied_bytes(workload.facts()), stream);
}

struct Ceiling {
  const char* name;
  const char* what;
  Moved (*moved)(const ProblemFacts& facts);
  void (*launch)(const Workload& workload, int slot, cudaStream_t stream);
};

constexpr Ceiling all_ceilings[] = {
    {"copy", "cudaMemcpy, device to device", copied, launch_copy<profiling::ceilings::copy>},
    {"copy_kernel", "the same copy by a kernel, 16 bytes a thread", copied,
     launch_copy<profiling::ceilings::copy_kernel>},
    {"read_only", "loads, no stores",
     [](const ProblemFacts& facts) {
       return Moved{facts.bytes_written, 0};
     },
     [](const Workload& workload, int slot, cudaStream_t stream) {
       profiling::ceilings::read_only(workload.traffic(slot).written,
                                      workload.facts().bytes_written, stream);
     }},
    {"same_bytes", "the same bytes read and written, nothing computed",
     [](const ProblemFacts& facts) {
       return Moved{facts.bytes_read, facts.bytes_written};
     },
     [](const Workload& workload, int slot, cudaStream_t stream) {
       const Traffic traffic = workload.traffic(slot);
       profiling::ceilings::same_bytes(traffic.read, workload.facts().bytes_read, traffic.written,
                                       workload.facts().bytes_written, stream);
     }},
    {"write_only", "stores, no loads",
     [](const ProblemFacts& facts) {
       return Moved{0, facts.bytes_written};
     },
     [](const Workload& workload, int slot, cudaStream_t stream) {
       profiling::ceilings::write_only(workload.traffic(slot).written,
                                       workload.facts().bytes_written, stream);
     }},
};

const Ceiling& ceiling_named(std::string_view name) {
  const auto* found = std::ranges::find(
      all_ceilings, name, [](const Ceiling& ceiling) { return std::string_view(ceiling.name); });
  if (found == std::ranges::end(all_ceilings)) {
    throw std::logic_error(fmt::format("no ceiling '{}'", name));
  }
  return *found;
}

Record to_record(const ProblemFacts& facts, const Lane& lane) {
  Record record;
  record.key = facts.name + "/" + lane.variant.name;
  record.variant = lane.variant;
  record.problem = facts.description;
  record.outcome = lane.verification.outcome;
  record.reason = lane.verification.reason;
  if (!lane.verification.found.equal()) record.mismatches = lane.verification.found.mismatches;
  record.samples_us = lane.samples_us;
  const Moved moved = lane.variant.role == Role::ceiling
                          ? ceiling_named(lane.variant.name).moved(facts)
                          : Moved{facts.bytes_read, facts.bytes_written};
  record.bytes_read = moved.read;
  record.bytes_written = moved.written;
  if (!lane.sm_mhz.empty()) {
    record.clocks = {lane.sm_mhz_before, summarize(lane.sm_mhz).median, lane.sm_mhz.back()};
  }
  if (lane.waited_for_host > 0 && record.reason.empty()) {
    record.reason = fmt::format("in {} of {} batches the GPU waited for the host",
                                lane.waited_for_host, lane.samples_us.size());
  }
  return record;
}

/// Takes the samples of one workload's lanes.
class Sampler {
 public:
  Sampler(const Workload& workload, Verifier& verifier, cudaStream_t stream,
          profiling::EventTimer& timer, profiling::SmClockProbe& probe,
          const MeasureOptions& options)
      : workload_(workload),
        verifier_(verifier),
        stream_(stream),
        timer_(timer),
        probe_(probe),
        options_(options) {}

  void time(std::vector<Lane>& lanes) {
    for (Lane& lane : lanes) {
      if (lane.timed()) calibrate(lane);
    }
    SampleOrder order(lanes.size(), problem_seed(options_.seed, workload_.facts().name));
    for (int round = 0; round < options_.samples; ++round) {
      for (const std::size_t i : order.next_round()) {
        if (lanes[i].timed()) sample(lanes[i], round + 1 == options_.samples);
      }
    }
  }

 private:
  /// One batch over all slots says how many launches a batch of the wanted length takes.
  void calibrate(Lane& lane) {
    launch(lane, 0, stream_);  // a first launch loads its module, which would count
    lane.sm_mhz_before = sm_mhz();
    lane.launches = std::min(workload_.slots(), max_launches_a_batch);
    const double us = batch(lane).us / lane.launches;
    lane.launches = static_cast<int>(
        std::clamp(std::ceil(options_.batch_us / us), 1.0, double{max_launches_a_batch}));
    lane.waited_for_host = 0;
  }

  /// The last batch writes into poisoned outputs, which are then compared: what was timed is what
  /// is verified.
  void sample(Lane& lane, bool last) {
    const int touched = std::min(lane.launches, workload_.slots());
    const bool verify = last && lane.variant.role != Role::ceiling;
    if (verify) {
      next_slot_ = 0;
      verifier_.poison(touched);
    }
    lane.samples_us.push_back(batch(lane).us / lane.launches);
    if (const auto mhz = sm_mhz()) lane.sm_mhz.push_back(*mhz);
    if (!verify) return;
    const Verification again = verifier_.verify_again(lane.variant, touched);
    if (again.outcome != lane.verification.outcome) {
      lane.verification = {again.outcome, "after timing: " + again.reason, again.found};
      lane.samples_us.clear();
    }
  }

  profiling::BatchTime batch(Lane& lane) {
    const auto time = timer_.time(
        [&](cudaStream_t stream) {
          for (int i = 0; i < lane.launches; ++i) {
            launch(lane, next_slot_, stream);
            next_slot_ = (next_slot_ + 1) % workload_.slots();
          }
        },
        stream_);
    if (!time.host_ahead) ++lane.waited_for_host;
    return time;
  }

  void launch(const Lane& lane, int slot, cudaStream_t stream) {
    const std::string& name = lane.variant.name;
    if (lane.variant.role == Role::ceiling) {
      ceiling_named(name).launch(workload_, slot, stream);
    } else {
      profiling::check(workload_.launch(name, slot, stream), name);
    }
  }

  /// At this moment; waits for what was launched.
  std::optional<double> sm_mhz() {
    probe_.enqueue(0, stream_);
    profiling::check(cudaStreamSynchronize(stream_), "reading the SM clock");
    return probe_.mhz(0);
  }

  const Workload& workload_;
  Verifier& verifier_;
  cudaStream_t stream_;
  profiling::EventTimer& timer_;
  profiling::SmClockProbe& probe_;
  const MeasureOptions& options_;
  int next_slot_ = 0;  ///< Of all lanes: none begins on what another has just touched.
};

bool is_timed(const MeasureOptions& options) {
  return options.instrument == profiling::Instrument::events;
}

std::vector<VariantInfo> ceilings_of(const MeasureOptions& options) {
  return is_timed(options) && options.ceilings ? ceiling_variants() : std::vector<VariantInfo>{};
}

}  // namespace

std::vector<VariantInfo> ceiling_variants() {
  std::vector<VariantInfo> variants;
  for (const Ceiling& ceiling : all_ceilings) {
    variants.push_back({ceiling.name, Role::ceiling, ceiling.what, "profiling/ceilings.cu", ""});
  }
  return variants;
}

void refuse_names_of_ceilings(const std::vector<VariantInfo>& kernels) {
  for (const Ceiling& ceiling : all_ceilings) {
    if (std::ranges::find(kernels, ceiling.name, &VariantInfo::name) != kernels.end()) {
      throw UsageError(
          fmt::format("kernel '{}' has the name of a ceiling; rename it", ceiling.name));
    }
  }
}

Measurement::Measurement() : comparison_(stream_.get()), probe_(1) {}

std::vector<Record> Measurement::run(const Workload& workload,
                                     const std::vector<VariantInfo>& variants,
                                     const MeasureOptions& options) {
  refuse_names_of_ceilings(variants);
  Verifier verifier(workload, comparison_, stream_.get());
  std::vector<Lane> lanes;
  for (const auto& variant : variants) {
    const profiling::NvtxRange range(options.experiment, variant.name, workload.facts().name);
    lanes.push_back({.variant = variant, .verification = verifier.verify(variant)});
  }
  if (is_timed(options)) {
    for (const auto& variant : ceilings_of(options)) lanes.push_back({.variant = variant});
    Sampler(workload, verifier, stream_.get(), timer_, probe_, options).time(lanes);
  }
  std::vector<Record> records;
  for (const Lane& lane : lanes) records.push_back(to_record(workload.facts(), lane));
  return records;
}

std::vector<Record> Measurement::run(const PlannedProblem& planned,
                                     const std::vector<VariantInfo>& variants,
                                     const MeasureOptions& options, std::uint64_t l2_bytes) {
  refuse_names_of_ceilings(variants);
  const Slots slots = is_timed(options) ? slots_for(planned, l2_bytes, free_memory())
                                        : slots_for(planned, 0, free_memory(), 1);
  if (slots.count > 0) {
    const int count = is_timed(options) ? slots.count : 1;
    return run(*planned.prepare(count, options.seed), variants, options);
  }
  std::vector<VariantInfo> all = variants;
  for (const auto& variant : ceilings_of(options)) all.push_back(variant);
  std::vector<Record> records;
  for (const auto& variant : all) {
    records.push_back(to_record(planned.facts, {.variant = variant,
                                                .verification = {.outcome = Outcome::unsupported,
                                                                 .reason = slots.why_none}}));
  }
  return records;
}

}  // namespace reprolab
