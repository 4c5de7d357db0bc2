// What of a file may reach a terminal.
#include "common/printable.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "reference/checkpoint/invalid_file.hpp"

namespace reprolab {
namespace {

using reference::quote_name;

std::string repeated(int times, const std::string& text) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

TEST(Printable, PlainTextOfAnyScriptStaysAsItIs) {
  for (const std::string text :
       {"", "model.layers.0.mlp.up_proj.weight", "a b\\x \"'|$`<", "größe ж 層 \U0001f600 \u00a0",
        "e\u0301", "\u05d0\u0627", "\U0010ffff"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, AsciiControlsAreEscaped) {
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("a\nb\tc\rd\x1b[31m\x7f"), "a\\x0ab\\x09c\\x0dd\\x1b[31m\\x7f");
  for (int c = 0; c < 0x20; ++c) {
    EXPECT_EQ(printable(std::string(1, static_cast<char>(c))), fmt::format("\\x{:02x}", c));
  }
}

TEST(Printable, C1IsEscapedAsUtf8AndAsBytes) {
  EXPECT_EQ(printable("a\u0085b\u009bc"), "a\\u0085b\\u009bc");
  EXPECT_EQ(printable("a\x85"
                      "b\x9b"
                      "c"),
            "a\\x85b\\x9bc");
  EXPECT_EQ(printable("\u0080\u009f\u00a0"), "\\u0080\\u009f\u00a0");
}

TEST(Printable, WhatReordersHidesOrBreaksALineIsEscaped) {
  EXPECT_EQ(printable("\u200b\u200c\u200d\u200e\u200f"), "\\u200b\\u200c\\u200d\\u200e\\u200f");
  EXPECT_EQ(printable("\u2028\u2029"), "\\u2028\\u2029");
  EXPECT_EQ(printable("\u202a\u202b\u202c\u202d\u202e"), "\\u202a\\u202b\\u202c\\u202d\\u202e");
  EXPECT_EQ(printable("\u2066\u2067\u2068\u2069"), "\\u2066\\u2067\\u2068\\u2069");
  EXPECT_EQ(printable("\u061c\ufeff\u2060\u00ad\u180e\ufff9"),
            "\\u061c\\ufeff\\u2060\\u00ad\\u180e\\ufff9");
  EXPECT_EQ(printable("\U000e0041"), "\\U000e0041");
  const std::string neighbours = "\u2010\u2027\u202f\u205f\u2070\ufefe\U000e0080";
  EXPECT_EQ(printable(neighbours), neighbours);
}

TEST(Printable, BytesThatAreNotUtf8AreEscapedOneByOne) {
  EXPECT_EQ(printable("a\xff"
                      "b\xc3"),
            "a\\xffb\\xc3");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");                    // overlong /
  EXPECT_EQ(printable("\xe0\x80\x9b"), "\\xe0\\x80\\x9b");           // overlong C1
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // past U+10FFFF
  EXPECT_EQ(printable("\xf0\x9f\x98"), "\\xf0\\x9f\\x98");           // cut
  EXPECT_EQ(printable("\xe2\x80\n"), "\\xe2\\x80\\x0a");             // cut by a newline
}

TEST(Printable, WhatIsPrintableAlreadyStays) {
  for (const std::string text : {"a\x1b\n\u202e\xff", "\\x1b", "\\"}) {
    EXPECT_EQ(printable(printable(text)), printable(text));
  }
}

TEST(QuoteName, FitsOnOneLine) {
  EXPECT_EQ(quote_name(""), "''");
  EXPECT_EQ(quote_name("a\nb\x7f"), "'a\\x0ab\\x7f'");
  EXPECT_EQ(quote_name(std::string(120, 'x')), "'" + std::string(120, 'x') + "'");
  EXPECT_EQ(quote_name(std::string(500, 'x')), "'" + std::string(120, 'x') + "...'");
}

TEST(QuoteName, IsCutAtACharacterBorder) {
  EXPECT_EQ(quote_name("x" + repeated(60, "é")), "'x" + repeated(59, "é") + "...'");
  EXPECT_EQ(quote_name("xx" + repeated(40, "層")), "'xx" + repeated(39, "層") + "...'");
  EXPECT_EQ(quote_name("x" + repeated(30, "\x1b")), "'x" + repeated(29, "\\x1b") + "...'");
  EXPECT_EQ(quote_name("x" + repeated(20, "\u202e")), "'x" + repeated(19, "\\u202e") + "...'");
}

}  // namespace
}  // namespace reprolab
