#include "experiments/harness/measure.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>

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

/// A copy moves as many bytes as a launch reads and writes, as far as one output can hold them.
std::uint64_t copied_bytes(const ProblemFacts& facts) {
  return std::min((facts.bytes_read + facts.bytes_written) / 2, facts.bytes_written);
}

bool is_copy(std::string_view ceiling) { return ceiling == "copy" || ceiling == "copy_kernel"; }

void launch_ceiling(const std::string& name, const Workload& workload, int slot,
                    cudaStream_t stream) {
  namespace ceilings = profiling::ceilings;
  const ProblemFacts& facts = workload.facts();
  const Traffic traffic = workload.traffic(slot);
  if (is_copy(name)) {
    // From this slot, written a whole rotation ago, to the one before it, just read.
    const Traffic other = workload.traffic((slot + workload.slots() - 1) % workload.slots());
    const auto copy = name == "copy" ? ceilings::copy : ceilings::copy_kernel;
    copy(other.written, traffic.written, copied_bytes(facts), stream);
  } else if (name == "write_only") {
    ceilings::write_only(traffic.written, facts.bytes_written, stream);
  } else if (name == "read_only") {
    ceilings::read_only(traffic.written, facts.bytes_written, stream);
  } else {
    ceilings::same_bytes(traffic.read, facts.bytes_read, traffic.written, facts.bytes_written,
                         stream);
  }
}

void count_bytes(const ProblemFacts& facts, const VariantInfo& variant, Record& record) {
  record.bytes_read = facts.bytes_read;
  record.bytes_written = facts.bytes_written;
  if (variant.role != Role::ceiling || variant.name == "same_bytes") return;
  if (is_copy(variant.name)) record.bytes_read = record.bytes_written = copied_bytes(facts);
  if (variant.name == "write_only") record.bytes_read = 0;
  if (variant.name == "read_only") {
    record.bytes_read = facts.bytes_written;
    record.bytes_written = 0;
  }
}

Record to_record(const ProblemFacts& facts, const Lane& lane) {
  Record record;
  record.key = facts.name + "/" + lane.variant.name;
  record.variant = lane.variant;
  record.problem = facts.description;
  record.outcome = lane.verification.outcome;
  record.reason = lane.verification.reason;
  record.samples_us = lane.samples_us;
  count_bytes(facts, lane.variant, record);
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
      launch_ceiling(name, workload_, slot, stream);
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

std::vector<VariantInfo> ceilings_of(const MeasureOptions& options) {
  const bool timed = options.instrument == profiling::Instrument::events;
  return timed && options.ceilings ? ceiling_variants() : std::vector<VariantInfo>{};
}

}  // namespace

std::vector<VariantInfo> ceiling_variants() {
  const auto ceiling = [](const char* name, const char* what) {
    return VariantInfo{name, Role::ceiling, what, "profiling/ceilings.cu", ""};
  };
  return {ceiling("copy", "cudaMemcpy, device to device"),
          ceiling("copy_kernel", "the same copy by a kernel, 16 bytes a thread"),
          ceiling("read_only", "loads, no stores"),
          ceiling("same_bytes", "the same bytes read and written, nothing computed"),
          ceiling("write_only", "stores, no loads")};
}

Measurement::Measurement() : comparison_(stream_.get()), probe_(1) {}

std::vector<Record> Measurement::run(const Workload& workload,
                                     const std::vector<VariantInfo>& variants,
                                     const MeasureOptions& options) {
  Verifier verifier(workload, comparison_, stream_.get());
  std::vector<Lane> lanes;
  for (const auto& variant : variants) {
    const profiling::NvtxRange range(options.experiment, variant.name, workload.facts().name);
    lanes.push_back({.variant = variant, .verification = verifier.verify(variant)});
  }
  if (options.instrument == profiling::Instrument::events) {
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
  const Slots slots = slots_for(planned, l2_bytes, free_memory());
  if (slots.count > 0) {
    const bool timed = options.instrument != profiling::Instrument::none;
    return run(*planned.prepare(timed ? slots.count : 1, options.seed), variants, options);
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
