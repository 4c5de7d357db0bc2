// The only statistic that measuring needs; claims/ computes all others from samples.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace reprolab {

/// The middle one of the samples, or the mean of the two in the middle. Throws
/// std::invalid_argument on no samples.
inline double median(std::vector<double> samples) {
  if (samples.empty()) throw std::invalid_argument("median: no samples");
  std::ranges::sort(samples);
  return (samples[(samples.size() - 1) / 2] + samples[samples.size() / 2]) / 2;
}

}  // namespace reprolab
