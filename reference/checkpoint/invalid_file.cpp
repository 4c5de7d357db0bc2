#include "reference/checkpoint/invalid_file.hpp"

#include <fmt/format.h>

#include "common/printable.hpp"

namespace reprolab::reference {

std::string quote_name(std::string_view name) {
  constexpr std::size_t longest_bytes = 120;
  std::string result;
  while (!name.empty()) {
    const std::string next = take_printable(&name);
    if (result.size() + next.size() > longest_bytes) return fmt::format("'{}...'", result);
    result += next;
  }
  return fmt::format("'{}'", result);
}

void reject_file(const std::filesystem::path& path, std::string_view fault) {
  throw InvalidFile(fmt::format("{}: {}", printable(path.string()), fault));
}

void reject_tensor(const std::filesystem::path& path, std::string_view tensor,
                   std::string_view fault) {
  reject_file(path, fmt::format("tensor {} {}", quote_name(tensor), fault));
}

}  // namespace reprolab::reference
