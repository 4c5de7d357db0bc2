#include "reference/invalid_file.hpp"

#include <fmt/format.h>

namespace reprolab::reference {

std::string quote_name(std::string_view name) {
  constexpr std::size_t longest = 120;
  std::string result = "'";
  for (const char c : name.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result + (name.size() > longest ? "...'" : "'");
}

}  // namespace reprolab::reference
