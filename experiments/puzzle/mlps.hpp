// Unsloth's NF4 puzzle: the matrices that it dequantizes, how often, and the bytes that this moves.
// Source: Unsloth's puzzle notebook, as D. Robertson's post on Modular's blog uses it.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "harness/nf4/tensor.hpp"
#include "harness/result_file.hpp"
#include "reference/compare.hpp"

namespace reprolab::puzzle {

/// The matrices of an MLP in the order in which they are dequantized; all have as many weights.
inline constexpr std::array<std::string_view, 3> matrix_names = {"up", "gate", "down"};
inline constexpr int matrices_per_mlp = static_cast<int>(matrix_names.size());

inline constexpr int published_iterations = 1000;
inline constexpr int warmup_iterations = 2;

struct Mlp {
  std::int64_t hidden = 0, intermediate = 0;
  reference::WeightType output = reference::WeightType::fp16;

  std::string name() const;  ///< "2048x8192"
  /// One of its matrices: nested scales, block size 64. The puzzle's `down` is the transpose of
  /// this shape, which makes no difference to a dequantization.
  nf4::TensorSpec matrix() const;
};

/// The puzzle's three MLPs, in its order.
inline constexpr std::array<Mlp, 3> mlps = {{
    {2048, 8192, reference::WeightType::fp16},
    {1024, 4096, reference::WeightType::bf16},
    {4096, 14336, reference::WeightType::bf16},
}};

/// "2048x8192 fp16: 215 of 16777216 weights differ, by at most 1 ULP; 1024x4096 bf16: 0 of ...".
/// `comparisons`: a matrix of each MLP with the reference.
std::string describe_differences(const std::array<reference::Comparison, mlps.size()>& comparisons);

/// Calls of a kernel in `iterations` of every MLP's matrices, which are one sample of a row.
constexpr std::int64_t launches_of(int iterations) {
  return std::int64_t{iterations} * matrices_per_mlp * std::ssize(mlps);
}

/// Facts about a sample: "three MLPs, 1000 times". Bytes are those of a dequantization in one
/// kernel, each byte of each call counted once: codes, scale codes and second-level scales in,
/// weights out, without the map and the offset. Elements are those of all matrices, once.
ProblemFacts facts_of(int iterations);

/// Iterations in one CUDA graph: the largest divisor of `iterations` up to 100.
int iterations_per_graph(int iterations);

}  // namespace reprolab::puzzle
