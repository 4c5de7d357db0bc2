// Enumerations whose values have names, in tables that hold them in the order of the enumerators.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>

namespace reprolab {

/// The value of that name. Throws std::invalid_argument if there is none.
template <class Enum, class Names>
Enum value_named(const Names& names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) {
    throw std::invalid_argument("no value has the name '" + std::string(name) + "'");
  }
  return static_cast<Enum>(found - names.begin());
}

}  // namespace reprolab
