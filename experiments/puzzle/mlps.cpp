#include "experiments/puzzle/mlps.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "reference/mismatch_report.hpp"

namespace reprolab::puzzle {
namespace {

constexpr int max_iterations_per_graph = 100;  // 300 nodes, or a few times that for a peer

}  // namespace

std::string Mlp::name() const { return fmt::format("{}x{}", hidden, intermediate); }

nf4::TensorSpec Mlp::matrix() const {
  return {.rows = intermediate, .columns = hidden, .nested = true, .output = output};
}

std::string describe_differences(
    const std::array<reference::Comparison, mlps.size()>& comparisons) {
  std::string text;
  for (std::size_t i = 0; i < mlps.size(); ++i) {
    const nf4::TensorSpec matrix = mlps[i].matrix();
    text +=
        fmt::format("{}{} {}: {}", i == 0 ? "" : "; ", mlps[i].name(), name(matrix.output),
                    reference::describe_extent(comparisons[i], matrix.weights(), matrix.output));
  }
  return text;
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

}  // namespace reprolab::puzzle
