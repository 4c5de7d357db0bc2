#include "reference/invalid_file.hpp"

#include "common/printable.hpp"

namespace reprolab::reference {

std::string quote_name(std::string_view name) {
  constexpr std::size_t longest_bytes = 120;
  std::string result;
  while (!name.empty()) {
    const std::string next = take_printable(&name);
    if (result.size() + next.size() > longest_bytes) return "'" + result + "...'";
    result += next;
  }
  return "'" + result + "'";
}

}  // namespace reprolab::reference
