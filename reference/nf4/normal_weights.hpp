// Weights for measurements: normal values from a counter, so that any part of a matrix can be made
// separately, on any machine, with the same bits.
#pragma once

#include <cstdint>
#include <span>

#include "reference/float16.hpp"

namespace reprolab::reference {

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): every bit depends on every bit.
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Bits of fp16 or bf16 values with mean 0. Element i of `weights` depends only on `seed` and on
/// `first_index + i`. Each is the sum of twelve uniform values, corrected to a normal one by
/// Teichroew's polynomial (Knuth, TAOCP 2, 3.4.1), rounded to `type`: additions and products only,
/// so no mathematics library can change a bit.
void normal_weights(std::uint64_t seed, std::uint64_t first_index, WeightType type,
                    float standard_deviation, std::span<std::uint16_t> weights, int threads = 0);

}  // namespace reprolab::reference
