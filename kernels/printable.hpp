// Text from files, drivers and users: names, and text for one line of a terminal.
#pragma once

#include <algorithm>
#include <array>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace reprolab {

/// `text` with every control character as "\\x1b", so that it stays in one line and cannot move the
/// cursor.
inline std::string printable(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      result += c;
      continue;
    }
    // Without fmt, which not every CUDA compiler can compile.
    std::array<char, 8> escape{};
    std::snprintf(escape.data(), escape.size(), "\\x%02x", byte);
    result += escape.data();
  }
  return result;
}

/// The text for as long as the process lives.
inline const char* lasting(const std::string& text) {
  static std::mutex one_at_a_time;
  static std::set<std::string> texts;
  const std::lock_guard lock(one_at_a_time);
  return texts.insert(text).first->c_str();
}

/// The rule of is_plain_name(), as the end of "give a name of ...".
inline constexpr std::string_view plain_name_rule =
    "at most 64 letters, digits, '_', '-' and '.', not starting with '.'";

/// A name given by a user that becomes files, rows and columns.
inline bool is_plain_name(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !name.empty() && name.size() <= 64 && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), is_plain);
}

}  // namespace reprolab
