// The counters of a chip, as CUPTI lists them. Needs no GPU and no driver: any machine can list the
// counters of any chip. Follows CUPTI's "Host Profiling API" (CUDA 12.6 update 2 and newer).
#pragma once

#include <cupti_profiler_host.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "profiling/counter_table.hpp"
#include "profiling/cupti_library.hpp"

namespace reprolab::profiling {

/// The chip of a CUDA device; calls the driver. Throws CuptiError.
std::string chip_of(const CuptiProfiling& cupti, int device);

/// The plan for collecting counters on a chip.
struct CounterPlan {
  struct Entry {
    Counter counter;
    std::string name{};     ///< The metric in `counter.names` that is read; empty if none can be.
    std::string missing{};  ///< Why it cannot be read; empty if it can.
  };
  std::vector<Entry> entries{};        ///< One for each counter, in their order; units filled in.
  std::size_t passes = 0;              ///< For all readable counters together.
  std::vector<std::uint8_t> config{};  ///< CUPTI's schedule of the passes.

  /// CUPTI's names of the counters that are read.
  std::vector<const char*> names() const;
};

/// The counters of one chip. Members throw CuptiError if CUPTI refuses a call that must succeed.
class ChipCounters {
 public:
  /// `availability`: limits the counters to those that a GPU has (availability_of()); empty: all of
  /// the chip. Throws CuptiError if CUPTI does not support the chip.
  ChipCounters(const CuptiProfiling& cupti, std::string chip,
               std::vector<std::uint8_t> availability = {});

  /// Looks up each counter separately, because one unknown name fails a whole configuration, then
  /// plans all that the chip has together.
  CounterPlan plan(const std::vector<Counter>& counters) const;

  /// Values of the plan's names(), in their order, for the first range of a decoded image. A ratio
  /// with a zero denominator is NaN.
  std::vector<double> evaluate(const CounterPlan& plan,
                               const std::vector<std::uint8_t>& image) const;

 private:
  class Object;
  std::vector<std::uint8_t> config(std::span<const char* const> names) const;
  std::size_t passes(std::vector<std::uint8_t> config) const;

  const CuptiProfiling& cupti_;
  std::string chip_;
  std::vector<std::uint8_t> availability_;
};

}  // namespace reprolab::profiling
