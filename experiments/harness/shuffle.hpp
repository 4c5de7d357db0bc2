// The order of samples: a seeded shuffle, the same on every machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

namespace reprolab {

/// Orders of `variants` things, one call a round. std::shuffle may differ between standard
/// libraries, so the Fisher-Yates shuffle is spelled out over std::mt19937_64, which may not.
class SampleOrder {
 public:
  SampleOrder(std::size_t variants, std::uint64_t seed) : order_(variants), random_(seed) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
  }

  const std::vector<std::size_t>& next_round() {
    for (std::size_t i = order_.size(); i > 1; --i) {
      std::swap(order_[i - 1], order_[random_() % i]);
    }
    return order_;
  }

 private:
  std::vector<std::size_t> order_;
  std::mt19937_64 random_;
};

}  // namespace reprolab
