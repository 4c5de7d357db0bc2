// Text from files and drivers, escaped for one line of a terminal: it cannot move the cursor, forge
// a line, reorder or hide text.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace reprolab {

/// A character of UTF-8 text and the bytes that it takes; one byte and no code point if the bytes
/// are not valid UTF-8 (overlong forms and surrogates are not).
struct Utf8Character {
  char32_t code_point = 0;
  std::size_t bytes = 1;
  bool valid = false;
};

/// The first character of `text`, which is not empty.
inline Utf8Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  char32_t code_point = lead & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code_point = code_point << 6 | (byte(i) & 0x3f);
  }
  constexpr std::array<char32_t, 5> smallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xd800 && code_point <= 0xdfff;
  if (code_point < smallest[bytes] || surrogate || code_point > 0x10ffff) return {};
  return {code_point, bytes, true};
}

/// C0, DEL, C1, line separators, and the format characters that reorder text or are invisible.
inline bool is_control(char32_t code_point) {
  constexpr std::array<std::pair<char32_t, char32_t>, 11> ranges = {{
      {0x00, 0x1f},        // C0
      {0x7f, 0x9f},        // DEL and C1
      {0xad, 0xad},        // soft hyphen
      {0x61c, 0x61c},      // Arabic letter mark
      {0x180e, 0x180e},    // Mongolian vowel separator
      {0x200b, 0x200f},    // zero width, direction marks
      {0x2028, 0x202e},    // line and paragraph separator, direction embeddings and overrides
      {0x2060, 0x206f},    // word joiner, direction isolates
      {0xfeff, 0xfeff},    // byte order mark
      {0xfff9, 0xfffb},    // interlinear annotation
      {0xe0000, 0xe007f},  // tags
  }};
  return std::any_of(ranges.begin(), ranges.end(), [&](const auto& range) {
    return code_point >= range.first && code_point <= range.second;
  });
}

/// Removes the first character from `*text`, which is not empty, and returns it in printable form:
/// unchanged, or as "\x1b" (an ASCII control or a byte that is not UTF-8), "\u202e", "\U000e0041".
inline std::string take_printable(std::string_view* text) {
  const Utf8Character character = first_character(*text);
  const std::string_view bytes = text->substr(0, character.bytes);
  text->remove_prefix(character.bytes);
  // Without fmt, which not every CUDA compiler can compile.
  const auto escaped = [](const char* format, unsigned value) {
    std::array<char, 16> escape{};
    std::snprintf(escape.data(), escape.size(), format, value);
    return std::string(escape.data());
  };
  if (!character.valid) return escaped("\\x%02x", static_cast<unsigned char>(bytes[0]));
  const auto code_point = static_cast<unsigned>(character.code_point);
  if (!is_control(code_point)) return std::string(bytes);
  if (code_point < 0x80) return escaped("\\x%02x", code_point);
  if (code_point < 0x10000) return escaped("\\u%04x", code_point);
  return escaped("\\U%08x", code_point);
}

/// `text` in one line, every control and every byte that is not UTF-8 escaped, all else unchanged.
/// Text that is printable already stays as it is.
inline std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) result += take_printable(&text);
  return result;
}

}  // namespace reprolab
