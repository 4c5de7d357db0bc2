// A reader of safetensors files (the format of Hugging Face: an 8-byte little-endian header
// length, a JSON header, then the tensors' bytes without gaps). Trusts nothing in the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "reference/checkpoint/regular_file.hpp"

namespace reprolab::reference {

class SafetensorsFile;

/// A tensor as the file's header describes it.
struct StoredTensor {
  const SafetensorsFile* file = nullptr;
  std::string name;
  std::string_view dtype;  ///< As the format spells it: "F32", "BF16", "U8", ...; never dangles.
  std::int64_t elements = 1;
  std::uint64_t offset_bytes = 0;  ///< From the start of the file.
  std::uint64_t size_bytes = 0;
};

/// The header of a file. The file is closed after reading it, so that a checkpoint may have more
/// files than a process may open.
class SafetensorsFile {
 public:
  /// Reads and checks the whole header. Throws InvalidFile.
  explicit SafetensorsFile(const std::filesystem::path& path);
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size_bytes() const { return identity_.size_bytes; }

  /// In the order of the header.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }

  /// Opens the file again and reads a tensor's bytes. Throws InvalidFile on a read error, or if the
  /// file has changed since its header was read.
  void read(const StoredTensor& tensor, void* destination) const;

 private:
  std::filesystem::path path_;
  FileIdentity identity_;
  std::vector<StoredTensor> tensors_;
};

}  // namespace reprolab::reference
