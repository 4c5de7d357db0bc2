#include "reference/checkpoint/shard_set.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/printable.hpp"
#include "reference/checkpoint/checkpoint_files.hpp"
#include "reference/checkpoint/invalid_file.hpp"

namespace reprolab::reference {
namespace {

namespace fs = std::filesystem;

/// Hugging Face names the parts of a set NAME-00001-of-00003.safetensors.
bool is_numbered_part(const fs::path& path) {
  const std::string stem = path.stem().string();
  const std::size_t of = stem.rfind("-of-");
  if (of == std::string::npos || of + 4 == stem.size()) return false;
  const auto digits = [](std::string_view text) {
    return text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return digits(std::string_view(stem).substr(of + 4)) && stem.substr(of + 4) != "00001";
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

/// Whether the file's folder has .safetensors files that are not among `files`.
bool has_others_beside(const fs::path& file, const std::vector<SafetensorsFile>& files) {
  std::error_code error;
  for (fs::directory_iterator entry(folder_of(file), error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.extension() == ".safetensors" &&
        std::none_of(files.begin(), files.end(), [&](const SafetensorsFile& known) {
          return known.path().filename() == path.filename();
        })) {
      return true;
    }
  }
  return false;
}

}  // namespace

ShardSet::ShardSet(const std::vector<fs::path>& given) : given_(given) {
  const CheckpointFiles found = find_checkpoint_files(given);
  files_.reserve(found.files.size());
  for (const fs::path& file : found.files) files_.emplace_back(file);
  add_names();
  require_placements(found);
}

void ShardSet::add_names() {
  std::size_t tensors = 0;
  for (const SafetensorsFile& file : files_) tensors += file.tensors().size();
  by_name_.reserve(tensors);
  for (const SafetensorsFile& file : files_) {
    for (const TensorInfo& tensor : file.tensors()) {
      const auto [held, is_new] = by_name_.try_emplace(tensor.name, StoredTensor{&tensor, &file});
      if (!is_new) {
        reject_tensor(file.path(), tensor.name,
                      fmt::format("is also in {}; give the files of one checkpoint alone",
                                  printable(held->second.file->path().string())));
      }
    }
  }
}

void ShardSet::require_placements(const CheckpointFiles& found) const {
  for (const auto& index : found.indexes) {
    for (const auto& [tensor, file] : index.placements) {
      const StoredTensor* held = find(tensor);
      if (held == nullptr || held->file != &files_[file]) {
        reject_tensor(index.path, tensor,
                      fmt::format("is not in {}, where the index puts it; download the checkpoint "
                                  "again",
                                  quote_name(files_[file].path().filename().string())));
      }
    }
  }
}

std::uint64_t ShardSet::size_bytes() const {
  std::uint64_t total = 0;
  for (const SafetensorsFile& file : files_) total += file.size_bytes();
  return total;
}

const StoredTensor* ShardSet::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &found->second;
}

std::string ShardSet::advice(std::string_view otherwise) const {
  for (const fs::path& path : given_) {
    std::error_code error;
    if (fs::is_directory(path, error) || path.extension() == ".json") continue;
    if (is_numbered_part(path) || has_others_beside(path, files_)) {
      return fmt::format("if the rest is in other files of the checkpoint, give their folder: {}",
                         printable(folder_of(path).string()));
    }
  }
  return std::string(otherwise);
}

void ShardSet::require_whole_elements(const StoredTensor& tensor, std::size_t element_bytes) const {
  if (tensor.info->size_bytes % element_bytes == 0) return;
  reject_tensor(tensor.file->path(), tensor.info->name,
                fmt::format("has {} bytes, which is no whole number of {}-byte elements",
                            tensor.info->size_bytes, element_bytes));
}

void ShardSet::read_bytes(const StoredTensor& tensor, void* destination) const {
  if (open_of_ != tensor.file) {
    open_of_ = nullptr;
    open_ = tensor.file->open();
    open_of_ = tensor.file;
  }
  open_->read_at(tensor.info->offset_bytes, destination, tensor.info->size_bytes);
}

}  // namespace reprolab::reference
