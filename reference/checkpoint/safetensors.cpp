#include "reference/checkpoint/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>

#include "reference/checkpoint/invalid_file.hpp"
#include "reference/checkpoint/strict_json.hpp"

namespace reprolab::reference {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::uint64_t length_bytes = 8;
constexpr std::uint64_t max_header_bytes = 100'000'000;  // the format's own limit
constexpr std::string_view damaged = "the file is damaged or was cut short; download it again";

struct Dtype {
  std::string_view name;
  std::int64_t bits;  ///< Per element.
};

constexpr std::array<Dtype, 22> dtypes = {{
    {"F64", 64},        {"F32", 32},        {"F16", 16},    {"BF16", 16},   {"I64", 64},
    {"I32", 32},        {"I16", 16},        {"I8", 8},      {"U64", 64},    {"U32", 32},
    {"U16", 16},        {"U8", 8},          {"BOOL", 8},    {"F8_E4M3", 8}, {"F8_E5M2", 8},
    {"F8_E8M0", 8},     {"F8_E4M3FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},
    {"F8_E5M2FNUZ", 8}, {"C64", 64},
}};

std::uint64_t read_header_bytes(const fs::path& path, const RegularFile& file) {
  if (file.size_bytes() < length_bytes) {
    reject_file(path,
                fmt::format("has {} bytes, fewer than the 8 of a safetensors header length; {}",
                            file.size_bytes(), damaged));
  }
  std::uint64_t header_bytes = 0;
  file.read_at(0, &header_bytes, length_bytes);
  if (header_bytes > max_header_bytes) {
    reject_file(path, fmt::format("the header length {} exceeds {}; this is not a safetensors file",
                                  header_bytes, max_header_bytes));
  }
  if (header_bytes > file.size_bytes() - length_bytes) {
    reject_file(path,
                fmt::format("the header of {} bytes goes past the end of the file ({} bytes); {}",
                            header_bytes, file.size_bytes(), damaged));
  }
  return header_bytes;
}

/// The tensor that a header entry describes, in data of `data_bytes`; `offset_bytes` is relative to
/// the start of the data, and `file` is not set. Throws InvalidFile.
StoredTensor tensor_of(const fs::path& path, const std::string& name, const json& entry,
                       std::uint64_t data_bytes) {
  const auto fail = [&](std::string_view fault) {
    reject_tensor(path, name, fmt::format("{}; {}", fault, damaged));
  };
  if (!entry.is_object()) fail("has a header entry that is not an object");
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!entry.contains(key)) fail(fmt::format("has no '{}' in the header", key));
  }
  const json &dtype = entry.at("dtype"), &shape = entry.at("shape"),
             &offsets = entry.at("data_offsets");
  if (!dtype.is_string()) fail("has a dtype that is not a string");
  const auto* known = std::ranges::find(dtypes, dtype.get<std::string>(), &Dtype::name);
  if (known == dtypes.end()) {
    fail(fmt::format("has the unknown dtype {}", quote_name(dtype.get<std::string>())));
  }
  if (!shape.is_array()) fail("has a shape that is not a list");
  std::int64_t elements = 1, bits = 0;
  bool overflows = false;
  for (const json& size : shape) {
    if (!is_whole_number(size)) fail("has a shape that is not whole numbers from 0");
    overflows |= __builtin_mul_overflow(elements, size.get<std::int64_t>(), &elements);
  }
  if (overflows) fail("has a shape whose product exceeds 64 bits");
  if (!offsets.is_array() || offsets.size() != 2 ||
      !std::ranges::all_of(offsets, is_whole_number)) {
    fail("has data_offsets that are not two whole numbers from 0");
  }
  const std::uint64_t begin = offsets[0], end = offsets[1];
  if (begin > end) fail(fmt::format("ends ({}) before it begins ({})", end, begin));
  if (end > data_bytes) {
    fail(fmt::format("ends at byte {} of the data, but the file has {} bytes of data", end,
                     data_bytes));
  }
  if (__builtin_mul_overflow(elements, known->bits, &bits)) {
    fail("has more bytes than 64 bits can count");
  }
  if (bits % 8 != 0) fail("does not fill whole bytes");
  const auto size_bytes = static_cast<std::uint64_t>(bits / 8);
  if (size_bytes != end - begin) {
    fail(fmt::format("needs {} bytes for its shape and dtype {}, but its data_offsets span {}",
                     size_bytes, known->name, end - begin));
  }
  return {nullptr, name, known->name, elements, begin, size_bytes};
}

void require_texts(const fs::path& path, const std::string& name, const json& metadata) {
  const auto is_text = [](const json& value) { return value.is_string(); };
  if (!metadata.is_object()) {
    reject_tensor(path, name, fmt::format("is not an object; {}", damaged));
  }
  if (!std::ranges::all_of(metadata, is_text)) {
    reject_tensor(path, name, fmt::format("holds a value that is not a string; {}", damaged));
  }
}

/// Reads {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...,
/// "__metadata__": {"KEY": "TEXT", ...}}. The format allows no blank before it. An entry is checked
/// and dropped as soon as it is complete.
std::vector<StoredTensor> parse_header(const fs::path& path, std::string_view text,
                                       std::uint64_t data_bytes) {
  using Event = json::parse_event_t;
  if (!text.starts_with('{')) throw InvalidJson("does not begin with '{'");
  std::vector<StoredTensor> tensors;
  std::string name;
  // Thrown at the end: a header that is not JSON is reported as such, whatever else is wrong.
  std::optional<InvalidFile> first_fault;
  parse_strict_json(text, 4, [&](int depth, Event event, const json& part) {
    if (depth != 1) return true;
    if (event == Event::key) name = part.get<std::string>();
    if (event != Event::value && event != Event::object_end && event != Event::array_end) {
      return true;
    }
    if (first_fault) return false;
    try {
      if (name == "__metadata__") {
        require_texts(path, name, part);
      } else {
        tensors.push_back(tensor_of(path, name, part, data_bytes));
      }
    } catch (const InvalidFile& fault) {
      first_fault = fault;
    }
    return false;
  });
  if (first_fault) throw *first_fault;
  return tensors;
}

/// By position, tensors must follow each other without gap or overlap up to the end.
void require_contiguous(const fs::path& path, const std::vector<StoredTensor>& tensors,
                        std::uint64_t data_bytes) {
  std::vector<const StoredTensor*> order;
  order.reserve(tensors.size());
  for (const StoredTensor& tensor : tensors) order.push_back(&tensor);
  std::ranges::sort(order, {}, [](const StoredTensor* tensor) {
    return std::pair(tensor->offset_bytes, tensor->size_bytes);
  });
  std::uint64_t end = 0;
  for (const StoredTensor* tensor : order) {
    if (tensor->offset_bytes != end) {
      reject_tensor(path, tensor->name,
                    fmt::format("begins at byte {} of the data, but the tensor before it ends at "
                                "{}; {}",
                                tensor->offset_bytes, end, damaged));
    }
    end += tensor->size_bytes;
  }
  if (end != data_bytes) {
    reject_file(path, fmt::format("the tensors end at byte {} of the data, but the file has {}; {}",
                                  end, data_bytes, damaged));
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const fs::path& path) : path_(path) {
  const RegularFile file(path);
  file.require_content();
  identity_ = file.identity();
  const std::uint64_t header_bytes = read_header_bytes(path, file);
  const std::uint64_t data_begin = length_bytes + header_bytes;
  const std::uint64_t data_bytes = size_bytes() - data_begin;
  try {
    tensors_ = parse_header(path, file.text_at(length_bytes, header_bytes), data_bytes);
  } catch (const InvalidJson& error) {
    reject_file(path, fmt::format("the header {}; {}", error.what(), damaged));
  }
  require_contiguous(path, tensors_, data_bytes);
  for (StoredTensor& tensor : tensors_) {
    tensor.file = this;
    tensor.offset_bytes += data_begin;
  }
}

void SafetensorsFile::read(const StoredTensor& tensor, void* destination) const {
  const RegularFile file(path_);
  file.read_at(tensor.offset_bytes, destination, tensor.size_bytes);
  file.require_still(identity_);  // after the reads, because it could be written to in between
}

}  // namespace reprolab::reference
