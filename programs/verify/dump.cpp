#include "programs/verify/dump.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "reference/npy.hpp"

namespace reprolab::verify {
namespace {

// A file name may have 255 bytes; while it is written, write_npy adds up to 20 of its own.
constexpr std::size_t longest_stem = 255 - 20 - std::string_view(".expected.npy").size();

/// FNV-1a.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

/// The text itself if it can be part of a file name, else with a hash of it, so that two texts
/// never share a file name: '~' is in no name that stays as it is.
std::string as_file_name(const std::string& text) {
  std::string name = text;
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return !std::isalnum(c) && c != '.' && c != '-' && c != '_'; }, '_');
  if (name == text && name.size() <= longest_stem) return name;
  const std::string tag = fmt::format("~{:016x}", hash_of(text));
  return name.substr(0, longest_stem - tag.size()) + tag;
}

}  // namespace

void dump_mismatch(const std::filesystem::path& directory, const reference::QuantizedTensor& tensor,
                   const std::string& subject, std::span<const std::uint16_t> expected,
                   std::span<const std::uint16_t> actual) {
  std::error_code ignored;  // write_npy reports what could not be written
  std::filesystem::create_directories(directory, ignored);
  const std::string stem = as_file_name(tensor.name + "." + subject);
  reference::write_npy(directory / (stem + ".expected.npy"), tensor.type, tensor.shape, expected);
  reference::write_npy(directory / (stem + ".actual.npy"), tensor.type, tensor.shape, actual);
}

}  // namespace reprolab::verify
