#include "reference/npy.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>
#include <string>

#include "common/printable.hpp"

namespace reprolab::reference {
namespace {

std::string header(WeightType type, const std::vector<std::int64_t>& shape) {
  std::string dimensions;
  for (const std::int64_t dimension : shape) dimensions += fmt::format("{}, ", dimension);
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                 type == WeightType::fp16 ? "<f2" : "<u2", dimensions);
  constexpr std::size_t preamble = 10;  // magic, version, length
  while ((preamble + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  std::string result("\x93NUMPY\x01\x00", 8);
  result += static_cast<char>(text.size() & 0xff);
  result += static_cast<char>(text.size() >> 8);
  return result + text;
}

}  // namespace

void write_npy(const std::filesystem::path& path, WeightType type,
               const std::vector<std::int64_t>& shape, std::span<const std::uint16_t> bits) {
  const std::filesystem::path temporary = path.string() + fmt::format(".{}.tmp", ::getpid());
  std::ofstream file(temporary, std::ios::binary);
  const std::string head = header(type, shape);
  file.write(head.data(), static_cast<std::streamsize>(head.size()));
  file.write(reinterpret_cast<const char*>(bits.data()),
             static_cast<std::streamsize>(bits.size_bytes()));
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(temporary, path, error);
  if (!file || error) {
    std::filesystem::remove(temporary, error);
    throw std::runtime_error(fmt::format(
        "cannot write {}; check that the folder exists and has room", printable(path.string())));
  }
}

}  // namespace reprolab::reference
