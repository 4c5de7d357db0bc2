// Unsloth's NF4 puzzle: the matrices that it dequantizes, how often, the bytes that this moves, and
// both timings: in fixed buffers as published, and through CUDA graphs.
// Source: Unsloth's puzzle notebook, as D. Robertson's post on Modular's blog uses it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "harness/nf4/workload.hpp"
#include "harness/sampling.hpp"
#include "profiling/cuda_check.hpp"
#include "profiling/event_timer.hpp"

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

/// Time in us on the host's clock, waiting for the GPU after every launch. The time of a graph of
/// the same launches is the row's `kernel_time`. Both also for one MLP: "wall_time.2048x8192".
inline constexpr const char* wall_time = "wall_time";

/// Whether a kernel supports the matrices of every MLP.
Support supports_all(const std::string& kernel);

class Puzzle {
  using Part = nf4::VerifiedMatrices;  ///< One MLP: a buffer set for each of its matrices.

 public:
  Puzzle(int iterations, std::uint64_t seed, const std::string& experiment);

  /// Verifies a kernel on every matrix, on the host and on the device. `comparison` only counts all
  /// mismatches.
  Verification verify(const VariantInfo& kernel, profiling::Instrument& instrument);
  /// Copies other weights to every matrix, so that a kernel that has cached its result for a
  /// pointer is wrong from then on. Must be called after all calls of verify().
  void exchange() {
    for (Part& part : parts_) part.exchange();
  }

  /// Launches a ceiling once; verification has launched the kernels.
  void prepare(const VariantInfo& variant);
  /// One run as published and one through graphs, with all outputs of each compared.
  Sampled sample(const VariantInfo& variant);
  std::optional<double> sm_mhz() { return probe_.mhz(stream_.get()); }

 private:
  /// The same launches twice: in `checked`, the RepeatCheck checks one of them.
  struct Graphs {
    std::unique_ptr<profiling::Graph> plain{}, checked{};
  };

  void launch(const Part& part, const VariantInfo& variant, int buffer_set) const;
  void iterate(const Part& part, const VariantInfo& variant, int times, bool checked,
               const std::function<void()>& after_each);
  double wall_us(const Part& part, const VariantInfo& variant);
  double graph_us(const Part& part, const VariantInfo& variant, const Graphs& graphs);
  std::optional<Graphs> capture(const Part& part, const VariantInfo& variant,
                                Verification& why_not);
  Verification judge(Part& part, const VariantInfo& variant);

  int iterations_;
  std::string experiment_;
  profiling::Stream stream_;
  Comparisons comparisons_{stream_.get()};
  std::deque<Part> parts_;  ///< By MLP.
  RepeatCheck repeat_;
  std::random_device random_;
  profiling::Event start_, end_;
  profiling::SmClockProbe probe_;
};

}  // namespace reprolab::puzzle
