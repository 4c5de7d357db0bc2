// A reader of safetensors files (the format of Hugging Face: an 8-byte little-endian header
// length, a JSON header, then the tensors' bytes without gaps). Trusts nothing in the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "reference/invalid_file.hpp"

namespace reprolab::reference {

struct TensorInfo {
  std::string name;
  std::string dtype;                ///< As the file spells it: "F32", "BF16", "U8", ...
  std::vector<std::int64_t> shape;  ///< Empty for a scalar.
  std::int64_t elements = 1;
  std::uint64_t offset_bytes = 0;  ///< From the start of the file.
  std::uint64_t size_bytes = 0;
};

/// Holds the header and an open file; tensors are read on demand, so memory use is bounded by the
/// largest tensor that is read.
class SafetensorsFile {
 public:
  /// Reads and checks the whole header. Throws InvalidFile.
  explicit SafetensorsFile(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  const std::map<std::string, TensorInfo>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// Null when the file holds no tensor of this name.
  const TensorInfo* find(const std::string& name) const;

  /// A tensor's bytes as elements of T; copied, since data in the file may be unaligned.
  /// Throws InvalidFile if the tensor's size is no multiple of T's, or on a read error.
  template <class T>
  std::vector<T> read(const TensorInfo& tensor) const {
    require_whole_elements(tensor, sizeof(T));
    std::vector<T> values(tensor.size_bytes / sizeof(T));
    read_bytes(tensor, values.data());
    return values;
  }

  /// Throws InvalidFile: "PATH: tensor 'NAME' FAULT".
  [[noreturn]] void reject(const std::string& tensor, const std::string& fault) const;

 private:
  void read_header();
  void require_whole_elements(const TensorInfo& tensor, std::size_t element_bytes) const;
  void read_bytes(const TensorInfo& tensor, void* destination) const;
  void read_at(std::uint64_t offset, void* destination, std::uint64_t bytes) const;
  [[noreturn]] void reject_file(const std::string& fault) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_bytes_ = 0;
  std::map<std::string, TensorInfo> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace reprolab::reference
