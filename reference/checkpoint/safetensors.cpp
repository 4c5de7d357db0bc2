#include "reference/checkpoint/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "reference/checkpoint/invalid_file.hpp"
#include "reference/checkpoint/safetensors_header.hpp"
#include "reference/checkpoint/strict_json.hpp"

namespace reprolab::reference {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::uint64_t length_bytes = 8;
constexpr std::uint64_t max_header_bytes = 100'000'000;  // the format's own limit
constexpr std::string_view damaged = "the file is damaged or was cut short; download it again";

std::uint64_t read_header_bytes(const std::filesystem::path& path, const RegularFile& file) {
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

/// By position, tensors must follow each other without gap or overlap up to the end.
void require_contiguous(const std::filesystem::path& path, const std::vector<TensorInfo>& tensors,
                        std::uint64_t data_bytes) {
  std::vector<const TensorInfo*> order;
  order.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return std::pair(a->offset_bytes, a->size_bytes) < std::pair(b->offset_bytes, b->size_bytes);
  });
  std::uint64_t end = 0;
  for (const TensorInfo* tensor : order) {
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

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : SafetensorsFile(path, RegularFile(path)) {}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path, const RegularFile& file)
    : path_(path), identity_(file.identity()) {
  const std::uint64_t header_bytes = read_header_bytes(path, file);
  const std::uint64_t data_begin = length_bytes + header_bytes;
  const std::uint64_t data_bytes = size_bytes() - data_begin;
  try {
    tensors_ = parse_safetensors_header(file.text_at(length_bytes, header_bytes), data_bytes);
  } catch (const InvalidJson& error) {
    reject_file(path, fmt::format("the header {}; {}", error.what(), damaged));
  } catch (const InvalidEntry& error) {
    reject_tensor(path, error.entry, fmt::format("{}; {}", error.what(), damaged));
  }
  require_contiguous(path, tensors_, data_bytes);
  for (TensorInfo& tensor : tensors_) tensor.offset_bytes += data_begin;
}

std::unique_ptr<RegularFile> SafetensorsFile::open() const {
  auto file = std::make_unique<RegularFile>(path_);
  if (file->identity() != identity_) {
    reject_file(path_, "was changed while it was read; verify it again");
  }
  return file;
}

}  // namespace reprolab::reference
