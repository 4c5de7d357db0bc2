#include "harness/programs/latency/chases.hpp"

#include <fmt/format.h>

#include "harness/family.hpp"
#include "profiling/ceilings.hpp"
#include "profiling/nvtx.hpp"

namespace reprolab::latency {
namespace {

constexpr std::uint32_t line_bytes = 128;       // of L1 and L2
constexpr std::uint32_t page_bytes = 2u << 20;  // of the GPU's page table, as cudaMalloc fills it
constexpr std::uint32_t lines_per_page = page_bytes / line_bytes;

/// One GiB, or eight times the L2 cache if that is more; below 4 GiB, because offsets have 32 bits.
std::uint32_t dram_pages(std::uint64_t l2_bytes) {
  const std::uint64_t wanted = std::max<std::uint64_t>(std::uint64_t{1} << 30, 8 * l2_bytes);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted / page_bytes, 2047));
}

/// One group of nodes, `spacing_bytes` apart.
Space one_group(std::string name, std::string what, Step step, std::uint32_t nodes,
                std::uint32_t spacing_bytes) {
  return {.name = std::move(name),
          .what = std::move(what),
          .step = step,
          .nodes = {1, nodes},
          .spacing_bytes = spacing_bytes,
          .group_bytes = nodes * spacing_bytes};
}

}  // namespace

std::vector<profiling::latency::Link> Space::links(const Next& next) const {
  std::vector<profiling::latency::Link> all(next.size());
  for (std::uint32_t node = 0; node < next.size(); ++node) {
    all[node] = {offset(node), offset(next[node])};
  }
  return all;
}

std::string Space::chain() const {
  if (step == Step::empty) return "nothing";
  const std::string groups = nodes.groups > 1 ? fmt::format("{}x", nodes.groups) : "";
  return fmt::format("{}{}x{}B", groups, nodes.per_group, spacing_bytes);
}

ProblemFacts Space::facts() const {
  return {.name = chain(),
          .description = {{"name", chain()},
                          {"family", "latency"},
                          {"what", what},
                          {"nodes", nodes.count()},
                          {"memory_bytes", bytes()},
                          {"timed_steps", profiling::latency::timed_steps}}};
}

// Numbers of nodes are odd: a chase follows 2^15 links, so it ends at another node than its first.
std::vector<Space> spaces(std::uint64_t l2_bytes) {
  const std::uint32_t pages = dram_pages(l2_bytes);
  return {
      one_group("empty_chain", "no memory: the loop and the clock alone", Step::empty, 1, 0),
      one_group("shared_load", "ld.shared, random order", Step::shared, 511, 4),
      one_group("shared_store", "st.shared after st.shared, which waits for nothing",
                Step::shared_store, profiling::latency::ring_nodes, 4),
      one_group("shared_store_to_load", "st.shared and the ld.shared that reads it back",
                Step::shared_store_to_load, profiling::latency::ring_nodes, 4),
      one_group("constant_load", "ld.const, random order in half a kilobyte", Step::constant, 127,
                4),
      one_group("global_l1", "ld.global, random order in 16 KiB", Step::global_through_l1, 127,
                line_bytes),
      one_group("global_l2", "ld.global.cg, random order in 2 MiB: the average over addresses",
                Step::global_past_l1, lines_per_page - 1, line_bytes),
      {.name = "global_l2_one_line",
       .what = "ld.global.cg within one line, another in every sample: the spread over addresses",
       .step = Step::global_past_l1,
       .nodes = {lines_per_page, 15},
       .spacing_bytes = 8,
       .group_bytes = line_bytes,
       .one_cycle = false},
      one_group("global_dram", "ld.global.cg, random order: nearly every step enters another page",
                Step::global_past_l1, pages * lines_per_page, line_bytes),
      {.name = "global_dram_by_page",
       .what = "ld.global.cg, random order in one 2 MiB page after another",
       .step = Step::global_past_l1,
       .nodes = {pages, lines_per_page},
       .spacing_bytes = line_bytes,
       .group_bytes = page_bytes}};
}

Chases::Chase::Chase(const Space& space, std::uint64_t seed)
    : space(space),
      next(space.next(seed)),
      chain(space.step, space.links(next), space.bytes()),
      random(seed) {}

/// Each chase starts where the last one ended, or in another group if there are several cycles.
void Chases::enqueue(Chase& chase, cudaStream_t stream) {
  const auto& [groups, per_group] = chase.space.nodes;
  chase.start = chase.end;
  if (!chase.space.one_cycle) {
    chase.start = static_cast<std::uint32_t>(chase.random() % groups) * per_group;
  }
  chase.end =
      node_after(chase.next, chase.start, profiling::latency::links_followed(chase.space.step));
  chase.chain.enqueue(chase.space.offset(chase.start), stream);
}

/// Whether the last chase ended at the node that the host computes; the stream must have been
/// synchronized.
Verification Chases::judge(const Chase& chase) {
  const std::uint32_t last = chase.chain.walked().end, expected = chase.space.offset(chase.end);
  if (last == expected) return {Outcome::bit_exact};
  return {Outcome::mismatch,
          fmt::format("1 of 1 ends differ; the chase from offset {} ended at {} instead of {}",
                      chase.space.offset(chase.start), last, expected),
          {1, 0}};
}

Chases::Chases(const profiling::Gpu& gpu, std::uint64_t seed, std::string experiment)
    : seed_(seed), experiment_(std::move(experiment)), other_memory_(3 * gpu.l2_bytes) {
  profiling::check(cudaMemset(other_memory_.data(), 0, other_memory_.bytes()),
                   "filling device memory");
}

Verification Chases::verify(const Space& space, const VariantInfo& variant,
                            profiling::Instrument& instrument) {
  // The memory of the chain and, while it is made, of the list of its links.
  const std::uint64_t needed =
      space.bytes() + space.nodes.count() * sizeof(profiling::latency::Link);
  if (const std::uint64_t free = free_memory().device_bytes; needed > free) {
    return {Outcome::unsupported,
            fmt::format("needs {:.1f} GiB of device memory, {:.1f} GiB are free; end what else "
                        "runs on this GPU",
                        profiling::gib(needed), profiling::gib(free))};
  }
  const Verification made = run_or_fail(
      variant, state_, [&] { chases_[variant.name] = std::make_unique<Chase>(space, seed_); });
  return made.is_bad() ? made : sample(variant, instrument, /*held=*/false).written;
}

Sampled Chases::sample(const VariantInfo& variant, profiling::Instrument& instrument, bool held) {
  Chase& chase = *chases_.at(variant.name);
  profiling::ceilings::read_only(other_memory_.data(), other_memory_.bytes(), stream_.get());
  Sampled sampled;
  const auto enqueue_chase = [&](cudaStream_t stream, const profiling::Call& call) {
    const profiling::NvtxRange range(experiment_, variant.name, chase.space.chain());
    call(kernel_time, [&] { enqueue(chase, stream); });
  };
  sampled.written = run_or_fail(variant, state_, [&] {
    sampled.sample = instrument.measure(
        {.name = variant.name, .calls = 1, .enqueue = enqueue_chase, .held = held}, stream_.get());
  });
  if (sampled.written.is_bad()) return sampled;
  sampled.written = with_records(judge(chase), sampled.sample);
  const auto cycles = static_cast<double>(chase.chain.walked().cycles);
  sampled.sample.readings.push_back(
      {latency_metric, "cycles", cycles / profiling::latency::timed_steps});
  return sampled;
}

}  // namespace reprolab::latency
