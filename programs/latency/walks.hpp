// Walks through all spaces, as a subject of the harness's sampling loop.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "harness/sampling.hpp"
#include "profiling/machine.hpp"
#include "profiling/sm_clock_probe.hpp"
#include "programs/latency/spaces.hpp"

namespace reprolab::latency {

inline constexpr const char* latency_metric = "latency";  ///< Cycles per step.

/// A chain on the device, and where its walks go.
class Walks {
 public:
  Walks(const Space& space, std::uint64_t seed);

  /// Enqueues a walk; each begins where the last one ended, or in another group if there are
  /// several cycles.
  void enqueue(cudaStream_t stream);

  /// Whether the last walk ended where the host's own does; the stream must have been synchronized.
  Verification judge() const;

  /// Cycles per step of the last walk.
  double latency() const;

 private:
  const Space& space_;
  Next next_;
  profiling::latency::Chain chain_;
  std::mt19937_64 random_;
  std::uint32_t start_ = 0, end_ = 0;  ///< Nodes of the last walk, by the host's count.
};

/// The rows of all spaces. A sample reads more than L2 holds from other memory, and walks once.
class AllWalks : public Subject {
 public:
  AllWalks(const profiling::Gpu& gpu, std::uint64_t seed, std::string experiment);

  /// Makes the chain of a space and verifies one walk. "unsupported" if the memory for it is not
  /// free.
  Row verify(const Space& space, const VariantInfo& variant, profiling::Instrument& instrument);

  std::string name() const override { return "latency"; }
  Verifier::Sampled prepare(Row&, profiling::Instrument&) override { return {}; }
  Verifier::Sampled sample(Row& row, profiling::Instrument& instrument) override;
  std::optional<double> sm_mhz() override { return probe_.mhz(stream_.get()); }

 private:
  Verifier::Sampled walk(const VariantInfo& variant, const std::string& chain,
                         profiling::Instrument& instrument, bool held);

  std::uint64_t seed_;
  std::string experiment_;
  profiling::Stream stream_;
  DeviceState state_{stream_.get()};
  profiling::SmClockProbe probe_;
  profiling::DeviceBuffer other_memory_;
  std::map<std::string, std::unique_ptr<Walks>> walks_;  ///< By row.
};

}  // namespace reprolab::latency
