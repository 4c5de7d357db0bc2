// The puzzle's matrices in device memory, in fixed buffers as published, and the two ways in which
// its iterations are timed.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "experiments/puzzle/mlps.hpp"
#include "harness/nf4/workload.hpp"
#include "harness/sampling.hpp"
#include "profiling/graph.hpp"
#include "profiling/sm_clock_probe.hpp"

namespace reprolab::puzzle {

/// Time in us on the host's clock, waiting for the GPU after every launch. The time of a graph of
/// the same launches is the row's `kernel_time`. Both also for one MLP: "wall_time.2048x8192".
inline constexpr const char* wall_time = "wall_time";

/// By kernel: the reason why its launches cannot be captured in a CUDA graph.
using NotCapturable = std::map<std::string, std::string>;

/// Whether a kernel supports the matrices of every MLP.
Support supports_all(const std::string& kernel);

/// Launches a kernel on a small matrix, then captures the same launch in a graph. Returns the
/// reason for a failure; empty if it succeeds, or if the kernel does not support such a matrix.
/// Throws KernelCrashed if the device becomes unusable.
std::string why_not_capturable(const VariantInfo& kernel);

class Puzzle {
  using Part = nf4::VerifiedMatrices;  ///< One MLP: a buffer set for each of its matrices.

 public:
  Puzzle(int iterations, std::uint64_t seed, const std::string& experiment,
         NotCapturable not_capturable);

  /// Verifies a kernel on every matrix, on the host and on the device. For a declared deviation,
  /// the reason covers every MLP, and `comparison` only counts all mismatches.
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
  NotCapturable not_capturable_;
  profiling::Stream stream_;
  Comparisons comparisons_{stream_.get()};
  std::deque<Part> parts_;  ///< By MLP.
  RepeatCheck repeat_;
  std::random_device random_;
  profiling::Event start_, end_;
  profiling::SmClockProbe probe_;
};

}  // namespace reprolab::puzzle
