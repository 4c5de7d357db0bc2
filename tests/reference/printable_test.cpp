// Text of a file that may reach a terminal.
#include "common/printable.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

namespace reprolab {
namespace {

/// Controls, characters that reorder, hide or break a line, and bytes that are not UTF-8.
TEST(Printable, ControlCharactersAreEscapedOnce) {
  for (const auto& [text, shown] : std::map<std::string, std::string>{
           {std::string("a\0b", 3), "a\\x00b"},
           {"a\nb\tc\rd\x1b[31m\x7f", "a\\x0ab\\x09c\\x0dd\\x1b[31m\\x7f"},
           {"\u0080a\u0085b\u009bc\u009f\u00a0", "\\u0080a\\u0085b\\u009bc\\u009f\u00a0"},
           {"\u200b\u200c\u200d\u200e\u200f", "\\u200b\\u200c\\u200d\\u200e\\u200f"},
           {"\u2028\u2029", "\\u2028\\u2029"},
           {"\u202a\u202b\u202c\u202d\u202e", "\\u202a\\u202b\\u202c\\u202d\\u202e"},
           {"\u2066\u2067\u2068\u2069", "\\u2066\\u2067\\u2068\\u2069"},
           {"\u061c\ufeff\u2060\u00ad\u180e\ufff9", "\\u061c\\ufeff\\u2060\\u00ad\\u180e\\ufff9"},
           {"\U000e0041", "\\U000e0041"},
           {"a\xff"
            "b\xc3",
            "a\\xffb\\xc3"},
           {"\x85z\x9bz", "\\x85z\\x9bz"},                // C1 as bytes
           {"\xc0\xaf", "\\xc0\\xaf"},                    // overlong /
           {"\xe0\x80\x9b", "\\xe0\\x80\\x9b"},           // overlong C1
           {"\xed\xa0\x80", "\\xed\\xa0\\x80"},           // surrogate
           {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},  // past U+10FFFF
           {"\xf0\x9f\x98", "\\xf0\\x9f\\x98"},           // cut
           {"\xe2\x80\n", "\\xe2\\x80\\x0a"}}) {          // cut by a newline
    EXPECT_EQ(printable(text), shown);
    EXPECT_EQ(printable(shown), shown);
  }
  for (int c = 0; c < 0x20; ++c) {
    EXPECT_EQ(printable(std::string(1, static_cast<char>(c))), fmt::format("\\x{:02x}", c));
  }
}

}  // namespace
}  // namespace reprolab
