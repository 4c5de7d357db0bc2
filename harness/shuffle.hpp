// The order of samples: a seeded shuffle, the same on every machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

#include "profiling/basics.hpp"

namespace reprolab {

/// A seed for one problem of a run, from the run's seed and the problem's name. With the run's seed
/// alone, every problem would be sampled in the same order, and every variant would always follow
/// the same neighbour.
constexpr std::uint64_t problem_seed(std::uint64_t seed, std::string_view problem) {
  return seed ^ fnv1a(problem);
}

/// Orders of `variants` items, one per call. std::shuffle may differ between standard libraries, so
/// the Fisher-Yates shuffle is written out here, over std::mt19937_64, which may not differ.
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
