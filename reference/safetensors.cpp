#include "reference/safetensors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/printable.hpp"
#include "reference/strict_json.hpp"

namespace reprolab::reference {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::uint64_t length_bytes = 8;
constexpr std::uint64_t max_header_bytes = 100'000'000;  // the format's own limit
constexpr std::string_view damaged = "the file is damaged or was cut short; download it again";

/// Bits per element; 0 for a dtype that the format does not have.
int element_bits(std::string_view dtype) {
  constexpr std::array<std::pair<std::string_view, int>, 21> dtypes = {{
      {"F64", 64},    {"F32", 32},        {"F16", 16},        {"BF16", 16},   {"I64", 64},
      {"I32", 32},    {"I16", 16},        {"I8", 8},          {"U64", 64},    {"U32", 32},
      {"U16", 16},    {"U8", 8},          {"BOOL", 8},        {"F8_E4M3", 8}, {"F8_E5M2", 8},
      {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F4", 4},
      {"C64", 64},
  }};
  if (dtype == "F6_E3M2") return 6;
  const auto found = std::find_if(dtypes.begin(), dtypes.end(),
                                  [&](const auto& entry) { return entry.first == dtype; });
  return found == dtypes.end() ? 0 : found->second;
}

/// What is wrong with a tensor's header entry: the predicate of a sentence about the tensor.
class InvalidEntry : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

const json& member(const json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end()) throw InvalidEntry(fmt::format("has no '{}' in the header", key));
  return *found;
}

std::int64_t dimension(const json& value) {
  const auto number = value.is_number_unsigned() ? value.get<std::uint64_t>() : UINT64_MAX;
  if (number > INT64_MAX) throw InvalidEntry("has a shape that is not whole numbers from 0");
  return static_cast<std::int64_t>(number);
}

std::vector<std::int64_t> parse_shape(const json& value) {
  if (!value.is_array()) throw InvalidEntry("has a shape that is not a list");
  std::vector<std::int64_t> shape;
  for (const json& entry : value) shape.push_back(dimension(entry));
  return shape;
}

std::int64_t count_elements(const std::vector<std::int64_t>& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(elements, size, &elements)) {
      throw InvalidEntry("has a shape whose product exceeds 64 bits");
    }
  }
  return elements;
}

std::uint64_t count_bytes(std::int64_t elements, int bits) {
  std::int64_t total_bits = 0;
  if (__builtin_mul_overflow(elements, static_cast<std::int64_t>(bits), &total_bits)) {
    throw InvalidEntry("has more bytes than 64 bits can count");
  }
  if (total_bits % 8 != 0) throw InvalidEntry("does not fill whole bytes");
  return static_cast<std::uint64_t>(total_bits / 8);
}

/// The result's `offset_bytes` is still relative to the start of the data.
TensorInfo parse_entry(const std::string& name, const json& entry, std::uint64_t data_bytes) {
  if (!entry.is_object()) throw InvalidEntry("has a header entry that is not an object");
  const json& dtype = member(entry, "dtype");
  if (!dtype.is_string()) throw InvalidEntry("has a dtype that is not a string");
  const auto& spelling = dtype.get_ref<const std::string&>();
  const int bits = element_bits(spelling);
  if (bits == 0) throw InvalidEntry(fmt::format("has the unknown dtype {}", quote_name(spelling)));
  TensorInfo tensor{.name = name, .dtype = spelling, .shape = parse_shape(member(entry, "shape"))};
  tensor.elements = count_elements(tensor.shape);
  const json& offsets = member(entry, "data_offsets");
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    throw InvalidEntry("has data_offsets that are not two whole numbers from 0");
  }
  const auto begin = offsets[0].get<std::uint64_t>();
  const auto end = offsets[1].get<std::uint64_t>();
  if (begin > end) throw InvalidEntry(fmt::format("ends ({}) before it begins ({})", end, begin));
  if (end > data_bytes) {
    throw InvalidEntry(fmt::format("ends at byte {} of the data, but the file has {} bytes of data",
                                   end, data_bytes));
  }
  const std::uint64_t needed = count_bytes(tensor.elements, bits);
  if (needed != end - begin) {
    throw InvalidEntry(
        fmt::format("needs {} bytes for its shape and dtype {}, but its "
                    "data_offsets span {}",
                    needed, spelling, end - begin));
  }
  tensor.offset_bytes = begin;
  tensor.size_bytes = needed;
  return tensor;
}

std::map<std::string, std::string> parse_metadata(const json& value) {
  std::map<std::string, std::string> metadata;
  if (!value.is_object()) throw InvalidEntry("is not an object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) throw InvalidEntry("holds a value that is not a string");
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

/// Sorted by position, tensors must follow each other without gap or overlap up to the end.
void require_contiguous(const std::map<std::string, TensorInfo>& tensors, std::uint64_t data_bytes,
                        const auto& reject_tensor, const auto& reject_file) {
  std::vector<const TensorInfo*> order;
  for (const auto& [name, tensor] : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return std::pair(a->offset_bytes, a->size_bytes) < std::pair(b->offset_bytes, b->size_bytes);
  });
  std::uint64_t end = 0;
  for (const TensorInfo* tensor : order) {
    if (tensor->offset_bytes != end) {
      reject_tensor(tensor->name,
                    fmt::format("begins at byte {} of the data, but the tensor before it ends at "
                                "{}; {}",
                                tensor->offset_bytes, end, damaged));
    }
    end += tensor->size_bytes;
  }
  if (end != data_bytes) {
    reject_file(fmt::format("the tensors end at byte {} of the data, but the file has {}; {}", end,
                            data_bytes, damaged));
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) reject_file(fmt::format("cannot be opened: {}", std::strerror(errno)));
  try {
    read_header();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_bytes_(other.size_bytes_),
      tensors_(std::move(other.tensors_)),
      metadata_(std::move(other.metadata_)) {}

void SafetensorsFile::read_header() {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    reject_file("is not a regular file; give a .safetensors file");
  }
  size_bytes_ = static_cast<std::uint64_t>(status.st_size);
  if (size_bytes_ < length_bytes) {
    reject_file(fmt::format("has {} bytes, fewer than the 8 of a safetensors header length; {}",
                            size_bytes_, damaged));
  }
  std::uint64_t header_bytes = 0;
  read_at(0, &header_bytes, length_bytes);
  if (header_bytes > max_header_bytes) {
    reject_file(fmt::format(
        "the header length {} exceeds 100000000; this is not a safetensors file", header_bytes));
  }
  if (header_bytes > size_bytes_ - length_bytes) {
    reject_file(fmt::format("the header of {} bytes goes past the end of the file ({} bytes); {}",
                            header_bytes, size_bytes_, damaged));
  }
  std::string header(header_bytes, '\0');
  read_at(length_bytes, header.data(), header_bytes);
  json parsed;
  try {
    parsed = parse_strict_json(header, 4);
  } catch (const InvalidJson& error) {
    reject_file(fmt::format("the header {}; {}", error.what(), damaged));
  }
  const std::uint64_t data_begin = length_bytes + header_bytes;
  const std::uint64_t data_bytes = size_bytes_ - data_begin;
  for (const auto& [name, entry] : parsed.items()) {
    try {
      if (name == "__metadata__") {
        metadata_ = parse_metadata(entry);
      } else {
        tensors_.emplace(name, parse_entry(name, entry, data_bytes));
      }
    } catch (const InvalidEntry& error) {
      reject(name, fmt::format("{}; {}", error.what(), damaged));
    }
  }
  require_contiguous(
      tensors_, data_bytes, [this](const auto& name, const auto& fault) { reject(name, fault); },
      [this](const auto& fault) { reject_file(fault); });
  for (auto& [name, tensor] : tensors_) tensor.offset_bytes += data_begin;
}

const TensorInfo* SafetensorsFile::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

void SafetensorsFile::require_whole_elements(const TensorInfo& tensor,
                                             std::size_t element_bytes) const {
  if (tensor.size_bytes % element_bytes == 0) return;
  reject(tensor.name, fmt::format("has {} bytes, which is no whole number of {}-byte elements; {}",
                                  tensor.size_bytes, element_bytes, damaged));
}

void SafetensorsFile::read_bytes(const TensorInfo& tensor, void* destination) const {
  read_at(tensor.offset_bytes, destination, tensor.size_bytes);
}

void SafetensorsFile::read_at(std::uint64_t offset, void* destination, std::uint64_t bytes) const {
  auto* out = static_cast<char*>(destination);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, out, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      reject_file(fmt::format("cannot be read at byte {}: {}", offset,
                              got < 0 ? std::strerror(errno) : "the file became shorter"));
    }
    out += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::uint64_t>(got);
  }
}

void SafetensorsFile::reject(const std::string& tensor, const std::string& fault) const {
  throw InvalidFile(
      fmt::format("{}: tensor {} {}", printable(path_.string()), quote_name(tensor), fault));
}

void SafetensorsFile::reject_file(const std::string& fault) const {
  throw InvalidFile(fmt::format("{}: {}", printable(path_.string()), fault));
}

}  // namespace reprolab::reference
