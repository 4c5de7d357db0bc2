#include "reference/nf4/normal_weights.hpp"

#include "reference/parallel.hpp"

namespace reprolab::reference {
namespace {

constexpr std::uint64_t golden_ratio = 0x9e3779b97f4a7c15u;

/// Adds the word's 16-bit quarters in pairs; the two sums are the halves of the result.
constexpr std::uint64_t fold_quarters(std::uint64_t word) {
  constexpr std::uint64_t low_halves = 0x0000ffff0000ffffu;
  return (word & low_halves) + ((word >> 16) & low_halves);
}

constexpr float normal_value(std::uint64_t start, std::uint64_t index) {
  std::uint64_t sums = 0;
  for (std::uint64_t word = 0; word < 3; ++word) {
    sums += fold_quarters(mix(start + (3 * index + word) * golden_ratio));
  }
  const auto twelve = static_cast<std::int32_t>((sums >> 32) + (sums & 0xffffffffu));
  // Twelve uniforms on [0, 65535] have mean 6 * 65535; centred and divided by four.
  const float r = static_cast<float>(twelve - 6 * 65535) * 0x1p-18f;
  const float r2 = r * r;
  constexpr float a1 = 3.949846138f;
  constexpr float a3 = 0.252408784f;
  constexpr float a5 = 0.076542912f;
  constexpr float a7 = 0.008355968f;
  constexpr float a9 = 0.029899776f;
  return ((((a9 * r2 + a7) * r2 + a5) * r2 + a3) * r2 + a1) * r;
}

}  // namespace

void normal_weights(std::uint64_t seed, std::uint64_t first_index, WeightType type,
                    float standard_deviation, std::span<std::uint16_t> weights, int threads) {
  const std::uint64_t start = mix(seed + golden_ratio);
  parallel_for(static_cast<std::int64_t>(weights.size()), 65536, threads,
               [&](auto first, auto last) {
                 for (std::int64_t i = first; i < last; ++i) {
                   const float value = normal_value(start, first_index + i);
                   weights[i] = round_to(type, value * standard_deviation);
                 }
               });
}

}  // namespace reprolab::reference
