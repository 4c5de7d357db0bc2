#include "programs/latency/walks.hpp"

#include <fmt/format.h>

#include "harness/buffer_sets.hpp"
#include "profiling/ceilings.hpp"
#include "profiling/nvtx.hpp"

namespace reprolab::latency {

Walks::Walks(const Space& space, std::uint64_t seed)
    : space_(space),
      next_(space.next(seed)),
      chain_(space.step, space.links(next_), space.bytes()),
      random_(seed) {}

void Walks::enqueue(cudaStream_t stream) {
  start_ = end_;
  if (!space_.one_cycle) {
    start_ = static_cast<std::uint32_t>(random_() % space_.nodes.groups) * space_.nodes.per_group;
  }
  end_ = node_after(next_, start_, profiling::latency::links_followed(space_.step));
  chain_.enqueue(space_.offset(start_), stream);
}

Verification Walks::judge() const {
  const std::uint32_t found = chain_.walked().end, expected = space_.offset(end_);
  if (found == expected) return {.outcome = Outcome::bit_exact};
  return {Outcome::mismatch,
          fmt::format("1 of 1 ends differ; the walk from offset {} ended at {} instead of {}",
                      space_.offset(start_), found, expected),
          {1, 0}};
}

double Walks::latency() const {
  return static_cast<double>(chain_.walked().cycles) /
         static_cast<double>(profiling::latency::timed_steps);
}

AllWalks::AllWalks(const profiling::Gpu& gpu, std::uint64_t seed, std::string experiment)
    : seed_(seed), experiment_(std::move(experiment)), other_memory_(3 * gpu.l2_bytes) {
  profiling::check(cudaMemset(other_memory_.data(), 0, other_memory_.bytes()),
                   "filling device memory");
}

Row AllWalks::verify(const Space& space, const VariantInfo& variant,
                     profiling::Instrument& instrument) {
  Verification verified;
  // Beside the chain, the list of its links while it is made.
  const std::uint64_t needed =
      space.bytes() + space.nodes.count() * sizeof(profiling::latency::Link);
  if (const std::uint64_t free = free_memory().device_bytes; needed > free) {
    verified = {Outcome::unsupported,
                fmt::format("needs {:.1f} GiB of device memory, {:.1f} GiB are free; end what else "
                            "runs on this GPU",
                            gib(needed), gib(free)),
                {}};
  } else {
    verified = run_or_fail(variant, state_,
                           [&] { walks_[variant.name] = std::make_unique<Walks>(space, seed_); });
    if (verified.outcome == Outcome::not_verified) {
      verified = walk(variant, space.chain(), instrument, /*held=*/false).written;
    }
  }
  Row row = start_row(space.chain(), variant, verified);
  row.record.problem = space.describe();
  return row;
}

Verifier::Sampled AllWalks::sample(Row& row, profiling::Instrument& instrument) {
  return walk(row.record.variant, row.record.problem.at("name"), instrument, /*held=*/true);
}

Verifier::Sampled AllWalks::walk(const VariantInfo& variant, const std::string& chain,
                                 profiling::Instrument& instrument, bool held) {
  Walks& walks = *walks_.at(variant.name);
  profiling::ceilings::read_only(other_memory_.data(), other_memory_.bytes(), stream_.get());
  Verifier::Sampled sampled;
  const auto enqueue = [&](cudaStream_t stream, const profiling::Call& call) {
    const profiling::NvtxRange range(experiment_, variant.name, chain);
    call(kernel_time, [&] { walks.enqueue(stream); });
  };
  sampled.written = run_or_fail(variant, state_, [&] {
    sampled.sample = instrument.measure(
        {.name = variant.name, .calls = 1, .enqueue = enqueue, .held = held}, stream_.get());
  });
  if (sampled.written.outcome != Outcome::not_verified) return sampled;
  sampled.written = with_records(walks.judge(), sampled.sample);
  const auto kind = instrument.kind();  // another may run a kernel several times over
  if (kind == profiling::InstrumentKind::events || kind == profiling::InstrumentKind::activity) {
    sampled.sample.readings.push_back({latency_metric, "cycles", walks.latency()});
  }
  return sampled;
}

}  // namespace reprolab::latency
