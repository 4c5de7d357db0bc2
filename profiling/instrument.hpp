// What a process measures with. One instrument a process: CUPTI admits one subscriber, and Nsight
// tools and compute-sanitizer want a process without any CUPTI call.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace reprolab::profiling {

enum class Instrument {
  none,      ///< Run and verify, measure nothing; for running under a profiler.
  events,    ///< A pair of CUDA events around each batch.
  activity,  ///< Start and end of every kernel, from CUPTI activity records.
};

constexpr std::string_view name(Instrument instrument) {
  switch (instrument) {
    case Instrument::none:
      return "none";
    case Instrument::events:
      return "events";
    case Instrument::activity:
      return "activity";
  }
  return "unknown";
}

/// Reads the value of `--instrument`; throws std::invalid_argument on any other word.
inline Instrument parse_instrument(std::string_view text) {
  for (const auto instrument : {Instrument::none, Instrument::events, Instrument::activity}) {
    if (text == name(instrument)) return instrument;
  }
  throw std::invalid_argument("--instrument: expected none, events or activity; got '" +
                              std::string(text) + "'");
}

}  // namespace reprolab::profiling
