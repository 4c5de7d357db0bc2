#include "programs/verify/dump.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "common/fnv1a.hpp"
#include "harness/whole_file.hpp"

namespace reprolab::verify {
namespace {

namespace fs = std::filesystem;

// A file name may have 255 bytes; a temporary name is up to 20 bytes longer.
constexpr std::size_t longest_stem = 255 - 20 - std::string_view(".expected.npy").size();

/// The text itself if it can be part of a file name, else an escaped form with a hash, so that two
/// texts never share a file name: only escaped names contain '~'.
std::string as_file_name(const std::string& text) {
  std::string name = text;
  std::ranges::replace_if(
      name, [](unsigned char c) { return !std::isalnum(c) && c != '.' && c != '-' && c != '_'; },
      '_');
  if (name == text && name.size() <= longest_stem) return name;
  const std::string tag = fmt::format("~{:016x}", fnv1a(text));
  return name.substr(0, longest_stem - tag.size()) + tag;
}

/// The header of NumPy's format, version 1.0. With more than 1000 dimensions it has only the number
/// of weights, because the header has room for 65535 bytes.
std::string npy_header(const reference::QuantizedTensor& tensor) {
  const bool fp16 = tensor.type == reference::WeightType::fp16;
  std::string dimensions;
  for (const std::int64_t dimension : tensor.shape) dimensions += fmt::format("{}, ", dimension);
  if (tensor.shape.size() > 1000) dimensions = fmt::format("{},", tensor.n);
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                 fp16 ? "<f2" : "<u2", dimensions);
  constexpr std::size_t preamble = 10;  // magic, version, length
  while ((preamble + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  std::string result("\x93NUMPY\x01\x00", 8);
  result += static_cast<char>(text.size() & 0xff);
  result += static_cast<char>(text.size() >> 8);
  return result + text;
}

std::string_view as_text(std::span<const std::uint16_t> bits) {
  return {reinterpret_cast<const char*>(bits.data()), bits.size_bytes()};
}

}  // namespace

void dump_mismatch(const fs::path& directory, const reference::QuantizedTensor& tensor,
                   const std::string& subject, std::span<const std::uint16_t> expected,
                   std::span<const std::uint16_t> actual) {
  const std::string stem = as_file_name(tensor.name + "." + subject);
  const std::string header = npy_header(tensor);
  write_whole(directory / (stem + ".expected.npy"), {header, as_text(expected)}, "--dump");
  write_whole(directory / (stem + ".actual.npy"), {header, as_text(actual)}, "--dump");
}

}  // namespace reprolab::verify
