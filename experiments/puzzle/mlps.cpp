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

std::string describe_differences(const std::array<reference::Comparison, mlps.size()>& found) {
  std::string text;
  for (std::size_t i = 0; i < mlps.size(); ++i) {
    const nf4::TensorSpec matrix = mlps[i].matrix();
    text += fmt::format("{}{} {}: {}", i == 0 ? "" : "; ", mlps[i].name(), name(matrix.output),
                        reference::describe_extent(found[i], matrix.weights(), matrix.output));
  }
  return text;
}

std::string RunFacts::name() const { return fmt::format("three MLPs, {} times", iterations); }

std::int64_t RunFacts::weights() const {
  std::int64_t sum = 0;
  for (const Mlp& mlp : mlps) sum += matrices_per_mlp * mlp.matrix().weights();
  return sum;
}

std::int64_t RunFacts::launches() const {
  return std::int64_t{iterations} * matrices_per_mlp * std::ssize(mlps);
}

nlohmann::json RunFacts::describe() const {
  const nf4::TensorSpec format = mlps.front().matrix();
  return {{"name", name()},
          {"family", "puzzle"},
          {"iterations", iterations},
          {"iterations_per_graph", iterations_per_graph(iterations)},
          {"launches", launches()},
          {"weights", weights()},
          {"block_size", format.block_size},
          {"nested", format.nested}};
}

std::uint64_t RunFacts::bytes_read() const {
  std::uint64_t sum = 0;
  for (const Mlp& mlp : mlps) sum += matrices_per_mlp * mlp.matrix().bytes_read();
  return sum * static_cast<std::uint64_t>(iterations);
}

std::uint64_t RunFacts::bytes_written() const {
  std::uint64_t sum = 0;
  for (const Mlp& mlp : mlps) sum += matrices_per_mlp * mlp.matrix().bytes_written();
  return sum * static_cast<std::uint64_t>(iterations);
}

int iterations_per_graph(int iterations) {
  int most = std::min(iterations, max_iterations_per_graph);
  while (iterations % most != 0) --most;
  return most;
}

}  // namespace reprolab::puzzle
