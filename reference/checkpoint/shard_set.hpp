// The tensors of a checkpoint, from all of its files. Hugging Face stores a checkpoint as one
// .safetensors file, or as several in a folder with `model.safetensors.index.json`, which maps
// tensors to files: {"metadata": {...}, "weight_map": {"TENSOR":
// "model-00001-of-00002.safetensors", ...}}.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reference/checkpoint/safetensors.hpp"

namespace reprolab::reference {

/// Holds the headers; tensors are read on demand, with one file open at a time, so that neither
/// memory nor open files grow with the checkpoint.
class ShardSet {
 public:
  /// `given` is any mix of .safetensors files, folders (what their index names, or else every
  /// .safetensors file in them) and index files (.json). Throws InvalidFile for a bad file, a
  /// folder without files, an index that is damaged or names a file that is missing or outside of
  /// its folder, a tensor that is in two files, and a tensor that is not in the file that an index
  /// names.
  explicit ShardSet(const std::vector<std::filesystem::path>& given);

  const std::deque<SafetensorsFile>& files() const { return files_; }
  std::size_t tensor_count() const { return by_name_.size(); }
  std::uint64_t size_bytes() const;

  /// Null when no file holds a tensor of this name.
  const StoredTensor* find(std::string_view name) const;

  /// The elements of a tensor, whose size is a multiple of T's; copied, since data in the file may
  /// be unaligned. Throws InvalidFile on a read error, or if the file was changed.
  template <class T>
  std::vector<T> read(const StoredTensor& tensor) const {
    std::vector<T> values(tensor.size_bytes / sizeof(T));
    tensor.file->read(tensor, values.data());
    return values;
  }

  /// Advice for an incomplete or missing tensor: give the folder, if there are other files next to
  /// these or they are numbered as parts; else `otherwise`.
  std::string advice(std::string_view otherwise) const;

 private:
  void add_names();

  std::vector<std::filesystem::path> given_;
  std::deque<SafetensorsFile> files_;  ///< Not moved, because tensors point to theirs.
  std::unordered_map<std::string_view, const StoredTensor*> by_name_;  ///< Into `files_`.
};

/// The given paths, fit to print: "a.safetensors", or "a.safetensors and 2 more".
std::string describe_paths(const std::vector<std::filesystem::path>& given);

}  // namespace reprolab::reference
