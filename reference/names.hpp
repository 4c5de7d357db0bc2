// Enumerations whose values have names, in tables in the order of the enumerators.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>

namespace reprolab {

/// The value of that name. Throws std::invalid_argument that lists the names if there is none.
template <class Enum, class Names>
Enum value_named(const Names& names, std::string_view name) {
  const auto entry = std::ranges::find(names, name);
  if (entry != names.end()) return static_cast<Enum>(entry - names.begin());
  std::string known;
  for (const std::string_view one : names) known += (known.empty() ? "" : ", ") + std::string(one);
  throw std::invalid_argument("there is no '" + std::string(name) + "'; there are: " + known);
}

}  // namespace reprolab
