// The tensors of a checkpoint, whichever of its files they are in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reference/checkpoint/checkpoint_files.hpp"
#include "reference/checkpoint/safetensors.hpp"

namespace reprolab::reference {

struct StoredTensor {
  const TensorInfo* info;
  const SafetensorsFile* file;
};

/// Holds the headers; tensors are read on demand, with one file open at a time, so that neither
/// memory nor open files grow with the checkpoint. Not for use by several threads at once.
class ShardSet {
 public:
  /// `given` as for find_checkpoint_files. Throws InvalidFile for any bad file, a name that two
  /// files hold, and a tensor that is not where an index says.
  explicit ShardSet(const std::vector<std::filesystem::path>& given);

  const std::vector<SafetensorsFile>& files() const { return files_; }
  std::size_t tensor_count() const { return by_name_.size(); }
  std::uint64_t size_bytes() const;

  /// Null when no file holds a tensor of this name.
  const StoredTensor* find(std::string_view name) const;

  /// The elements of a tensor; copied, since data in the file may be unaligned. Throws InvalidFile
  /// if the tensor's size is no multiple of T's, on a read error, or if the file was changed.
  template <class T>
  std::vector<T> read(const StoredTensor& tensor) const {
    require_whole_elements(tensor, sizeof(T));
    std::vector<T> values(tensor.info->size_bytes / sizeof(T));
    read_bytes(tensor, values.data());
    return values;
  }

  /// What to do about a tensor that is not complete, or not there at all: give the folder, if these
  /// files have others beside them or are numbered as parts; else `otherwise`.
  std::string advice(std::string_view otherwise) const;

 private:
  void add_names();
  void require_placements(const CheckpointFiles& found) const;
  void require_whole_elements(const StoredTensor& tensor, std::size_t element_bytes) const;
  void read_bytes(const StoredTensor& tensor, void* destination) const;

  std::vector<std::filesystem::path> given_;
  std::vector<SafetensorsFile> files_;
  std::unordered_map<std::string_view, StoredTensor> by_name_;  ///< Views into `files_`.
  mutable std::unique_ptr<RegularFile> open_;                   ///< The file read last.
  mutable const SafetensorsFile* open_of_ = nullptr;            ///< Whose it is.
};

}  // namespace reprolab::reference
