// Order statistics of samples: what is reported is the median with its spread.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>
#include <vector>

namespace reprolab {

/// With fewer samples than this, the quartiles of two equal things fail to overlap too often (a
/// third of the time with 3 samples), so the interval is the whole range.
inline constexpr std::size_t fewest_for_quartiles = 5;

struct Summary {
  double min = 0, lower_quartile = 0, median = 0, upper_quartile = 0, max = 0;
  std::size_t n = 0;

  /// The interval of a variant: two variants are called different only if theirs do not overlap.
  double low() const { return n < fewest_for_quartiles ? min : lower_quartile; }
  double high() const { return n < fewest_for_quartiles ? max : upper_quartile; }
};

/// Quantile by linear interpolation between closest ranks (Hyndman and Fan's type 7, NumPy's
/// default). `sorted` must not be empty.
inline double quantile(std::span<const double> sorted, double probability) {
  const double rank = probability * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(rank));
  const auto above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (rank - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

/// Throws std::invalid_argument on no samples.
inline Summary summarize(std::span<const double> samples) {
  if (samples.empty()) throw std::invalid_argument("summarize: no samples");
  std::vector<double> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted);
  return {sorted.front(),         quantile(sorted, 0.25), quantile(sorted, 0.5),
          quantile(sorted, 0.75), sorted.back(),          sorted.size()};
}

}  // namespace reprolab
