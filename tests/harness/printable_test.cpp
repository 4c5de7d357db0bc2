// Text of a file or a driver that may reach a terminal.
#include "kernels/printable.hpp"

#include <gtest/gtest.h>

namespace reprolab {
namespace {

TEST(Printable, ControlCharactersAreEscapedAndOtherTextStays) {
  EXPECT_EQ(printable("größe ж a b\\x"), "größe ж a b\\x");
  EXPECT_EQ(printable("a\nb\tc\x1b[31m\x7f"), "a\\x0ab\\x09c\\x1b[31m\\x7f");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
}

}  // namespace
}  // namespace reprolab
