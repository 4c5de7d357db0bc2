#include "experiments/puzzle/puzzle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "harness/measure.hpp"
#include "profiling/nvtx.hpp"

namespace reprolab::puzzle {
namespace {

using nf4::Problem;

constexpr int max_iterations_per_graph = 100;  // 300 nodes, or a few times that for a peer

std::string of_mlp(const char* metric, const nf4::VerifiedMatrices& mlp) {
  return fmt::format("{}.{}", metric, mlp.workload.facts().name);
}

/// The worse of two verdicts on outputs of one row; the first failure is returned at once.
Outcome worse(Outcome a, Outcome b) {
  if (a == Outcome::deviation_as_declared || b == Outcome::not_verified) return a;
  return b;
}

}  // namespace

std::string Mlp::name() const { return fmt::format("{}x{}", hidden, intermediate); }

nf4::TensorSpec Mlp::matrix() const {
  return {.rows = intermediate, .columns = hidden, .nested = true, .output = output};
}

ProblemFacts facts_of(int iterations) {
  const nf4::TensorSpec format = mlps.front().matrix();
  const auto times = static_cast<std::uint64_t>(iterations);
  ProblemFacts facts{.name = fmt::format("three MLPs, {} times", iterations), .element_bytes = 2};
  for (const Mlp& mlp : mlps) {
    const nf4::TensorSpec matrix = mlp.matrix();
    facts.elements += matrices_per_mlp * matrix.weights();
    facts.bytes_read += times * matrices_per_mlp * matrix.bytes_read();
    facts.bytes_written += times * matrices_per_mlp * matrix.bytes_written();
  }
  facts.description = {{"name", facts.name},
                       {"family", "puzzle"},
                       {"iterations", iterations},
                       {"iterations_per_graph", iterations_per_graph(iterations)},
                       {"launches", launches_of(iterations)},
                       {"weights", facts.elements},
                       {"block_size", format.block_size},
                       {"nested", format.nested}};
  return facts;
}

int iterations_per_graph(int iterations) {
  int most = std::min(iterations, max_iterations_per_graph);
  while (iterations % most != 0) --most;
  return most;
}

Support supports_all(const std::string& kernel) {
  for (const Mlp& mlp : mlps) {
    const Support support =
        kernel_named<Problem>(kernel).supports(nf4::without_memory(mlp.matrix()));
    if (!support.ok) return support;
  }
  return Support::yes();
}

Puzzle::Puzzle(int iterations, std::uint64_t seed, const std::string& experiment)
    : iterations_(iterations), experiment_(experiment) {
  for (const Mlp& mlp : mlps) {
    parts_.emplace_back(mlp.name(), mlp.matrix(), matrices_per_mlp, seed, comparisons_,
                        stream_.get(), experiment);
  }
}

Verification Puzzle::verify(const VariantInfo& kernel, profiling::Instrument& instrument) {
  Verification all{Outcome::bit_exact};
  for (Part& part : parts_) {
    Verification one = part.verifier.verify(kernel, instrument);
    if (!one.reason.empty()) {
      one.reason = fmt::format("{}: {}", part.workload.facts().name, one.reason);
    }
    if (!may_be_timed(one.outcome)) return one;
    all.comparison.mismatches += one.comparison.mismatches;
    all.outcome = worse(all.outcome, one.outcome);
    all.reason += (all.reason.empty() || one.reason.empty() ? "" : "; ") + one.reason;
  }
  return all;
}

void Puzzle::launch(const Part& part, const VariantInfo& variant, int buffer_set) const {
  if (variant.is_ceiling()) {
    ceiling_named(variant.name).launch(part.workload, buffer_set, stream_.get());
  } else {
    require_launched(part.workload.launch(variant.name, buffer_set, stream_.get()));
  }
}

void Puzzle::prepare(const VariantInfo& variant) {
  if (!variant.is_ceiling()) return;
  for (const Part& part : parts_) launch(part, variant, 0);
  stream_.synchronize();
}

void Puzzle::iterate(const Part& part, const VariantInfo& variant, int times, bool checked,
                     const std::function<void()>& after_each) {
  const ProblemFacts& facts = part.workload.facts();
  if (checked) repeat_.choose(times * matrices_per_mlp);
  for (int i = 0; i < times * matrices_per_mlp; ++i) {
    const int buffer_set = i % matrices_per_mlp;
    const auto launch_it = [&] { launch(part, variant, buffer_set); };
    if (checked) {
      repeat_.around(i, buffer_set, part.workload.output(buffer_set), facts.elements,
                     facts.element_bytes, stream_.get(), launch_it);
    } else {
      launch_it();
    }
    after_each();
  }
}

/// As published: timed by the host's clock, and the host waits for the whole GPU after every
/// launch.
double Puzzle::wall_us(const Part& part, const VariantInfo& variant) {
  const auto wait = [&] { profiling::check(cudaDeviceSynchronize(), variant.name); };
  iterate(part, variant, warmup_iterations, false, wait);
  part.verifier.poison({0, matrices_per_mlp});
  profiling::check(cudaDeviceSynchronize(), "poisoning the outputs");
  const auto start = std::chrono::steady_clock::now();
  iterate(part, variant, iterations_, true, wait);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

/// The two graphs in an order that a kernel cannot detect.
std::optional<Puzzle::Graphs> Puzzle::capture(const Part& part, const VariantInfo& variant,
                                              Verification& why_not) {
  const int iterations = iterations_per_graph(iterations_);
  const auto graph_of = [&](bool checked) {
    return std::make_unique<profiling::Graph>(
        stream_.get(), [&] { iterate(part, variant, iterations, checked, [] {}); });
  };
  Graphs graphs;
  const bool checked_first = random_() % 2 == 0;
  why_not = run_or_fail(variant, comparisons_.state, [&] {
    if (!checked_first) graphs.plain = graph_of(false);
    graphs.checked = graph_of(true);
    if (checked_first) graphs.plain = graph_of(false);
  });
  if (why_not.outcome != Outcome::not_verified) return std::nullopt;
  return graphs;
}

/// Both graphs run once to warm up; the timed ones, one of them checked, are queued after them, so
/// that the GPU never waits for the host.
double Puzzle::graph_us(const Part& part, const VariantInfo& variant, const Graphs& graphs) {
  graphs.checked->launch(stream_.get());
  graphs.plain->launch(stream_.get());
  part.verifier.poison({0, matrices_per_mlp});
  const int launches = iterations_ / iterations_per_graph(iterations_);
  const auto checked = static_cast<int>(random_() % static_cast<unsigned>(launches));
  start_.record(stream_.get());
  for (int i = 0; i < launches; ++i) {
    (i == checked ? graphs.checked : graphs.plain)->launch(stream_.get());
  }
  end_.record(stream_.get());
  profiling::check(cudaDeviceSynchronize(), variant.name);
  return profiling::elapsed_us(start_, end_);
}

/// Compares all outputs of one MLP whose expected output is known.
Verification Puzzle::judge(Part& part, const VariantInfo& variant) {
  for (const Part& any : parts_) any.verifier.require_untouched(variant);
  Verification all;
  if (variant.is_ceiling()) return all;
  for (int buffer_set = 0; buffer_set < matrices_per_mlp; ++buffer_set) {
    const int matrix = part.workload.matrix_of(buffer_set);
    if (matrix != 0 && !part.verifier.compares_all(variant)) continue;  // declared for matrix 0
    Verification one = part.verifier.judge(variant, matrix, part.workload.output(buffer_set));
    if (!may_be_timed(one.outcome)) {
      one.reason = fmt::format("{}.{}: {}", part.workload.facts().name,
                               matrix_names[static_cast<std::size_t>(buffer_set)], one.reason);
      return one;
    }
    all.outcome = worse(all.outcome, one.outcome);
  }
  if (Verification repeat = part.verifier.judge_repeat(variant, repeat_);
      repeat.outcome == Outcome::mismatch) {
    repeat.reason = part.workload.facts().name + ": " + repeat.reason;
    return repeat;
  }
  return all;
}

Sampled Puzzle::sample(const VariantInfo& variant) {
  const profiling::NvtxRange range(experiment_, variant.name, facts_of(iterations_).name);
  Sampled sampled;
  double wall_total_us = 0, graph_total_us = 0;
  // Returns whether the outputs are correct; otherwise sets the row's verdict.
  const auto run = [&](Part& part, const std::function<void()>& timed) {
    Verification written = run_or_fail(variant, comparisons_.state, timed);
    if (written.outcome == Outcome::not_verified) written = judge(part, variant);
    if (!written.is_bad()) written.outcome = worse(sampled.written.outcome, written.outcome);
    sampled.written = written;
    return !written.is_bad();
  };
  auto& readings = sampled.sample.readings;
  const auto add_missing = [&](const std::string& metric, const std::string& why) {
    sampled.sample.missing.push_back({metric, "us", "cannot be captured in a CUDA graph: " + why});
  };
  std::string why_no_graph;
  for (Part& part : parts_) {
    double wall = 0, graphed = 0;
    if (!run(part, [&] { wall = wall_us(part, variant); })) return sampled;
    readings.push_back({of_mlp(wall_time, part), "us", wall});
    wall_total_us += wall;
    Verification why_not;
    const auto graphs = capture(part, variant, why_not);
    if (why_not.outcome == Outcome::not_measured) {
      sampled.written = why_not;
      return sampled;
    }
    if (!graphs) {
      why_no_graph = why_not.reason;
      add_missing(of_mlp(kernel_time, part), why_no_graph);
      continue;
    }
    if (!run(part, [&] { graphed = graph_us(part, variant, *graphs); })) return sampled;
    readings.push_back({of_mlp(kernel_time, part), "us", graphed});
    graph_total_us += graphed;
  }
  readings.push_back({wall_time, "us", wall_total_us});
  if (why_no_graph.empty()) {
    readings.push_back({kernel_time, "us", graph_total_us});
  } else {
    add_missing(kernel_time, why_no_graph);
  }
  return sampled;
}

}  // namespace reprolab::puzzle
