#include "experiments/verify/dump.hpp"

#include <algorithm>
#include <cctype>

#include "reference/npy.hpp"

namespace reprolab::verify {
namespace {

std::string as_file_name(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](unsigned char c) { return !std::isalnum(c) && c != '.' && c != '-' && c != '_'; }, '_');
  return text;
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
