// Names given by a user that become files, rows and columns.
#pragma once

#include <algorithm>
#include <string_view>

namespace reprolab {

/// The rule of is_plain_name(), as the end of "give a name of ...".
inline constexpr std::string_view plain_name_rule =
    "at most 64 letters, digits, '_', '-' and '.', not starting with '.'";

inline bool is_plain_name(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !name.empty() && name.size() <= 64 && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), is_plain);
}

}  // namespace reprolab
