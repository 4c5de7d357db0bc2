// Shared by every part of measuring: a fault of the harness, the median, a hash,
// enumerations whose values have names.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace reprolab {

/// A fault of the harness itself, for which no kernel is to blame: thrown if memory for the
/// harness's own buffers runs out, or if CUPTI loses records or refuses a call. Rows that it
/// affects are not_measured.
struct NotMeasured : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The middle one of the samples, or the mean of the two in the middle. Throws
/// std::invalid_argument on no samples.
inline double median(std::vector<double> samples) {
  if (samples.empty()) throw std::invalid_argument("median: no samples");
  std::ranges::sort(samples);
  return (samples[(samples.size() - 1) / 2] + samples[samples.size() / 2]) / 2;
}

/// A hash that is stable across machines and versions: the 64-bit FNV-1a (Fowler, Noll, Vo).
constexpr std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

/// The value of that name in a table in the order of the enumerators. Throws std::invalid_argument
/// that lists the names if there is none.
template <class Enum, class Names>
Enum value_named(const Names& names, std::string_view name) {
  const auto entry = std::ranges::find(names, name);
  if (entry != names.end()) return static_cast<Enum>(entry - names.begin());
  std::string known;
  for (const std::string_view one : names) known += (known.empty() ? "" : ", ") + std::string(one);
  throw std::invalid_argument("there is no '" + std::string(name) + "'; there are: " + known);
}

}  // namespace reprolab
