// A file on a disk, open for reading.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "reference/checkpoint/invalid_file.hpp"

namespace reprolab::reference {

/// Identity and state of a file: equal as long as nobody replaces or writes it.
struct FileIdentity {
  std::uint64_t device = 0, inode = 0, size_bytes = 0;
  std::int64_t modified_s = 0, modified_ns = 0;

  bool operator==(const FileIdentity&) const = default;
};

class RegularFile {
 public:
  /// Throws InvalidFile if the file cannot be opened, or is a folder, FIFO, socket or device,
  /// without waiting for it.
  explicit RegularFile(const std::filesystem::path& path);
  ~RegularFile();
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  const FileIdentity& identity() const { return identity_; }
  std::uint64_t size_bytes() const { return identity_.size_bytes; }

  /// Throws InvalidFile if the file ends before, or on a read error.
  void read_at(std::uint64_t offset, void* destination, std::uint64_t bytes) const;

  /// Throws InvalidFile if the file was replaced or written to.
  void require_still(const FileIdentity& identity) const;

  /// Throws InvalidFile if it is a Git LFS pointer.
  void require_content() const;

  /// The bytes from `offset` as text.
  std::string text_at(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  RegularFile(const std::filesystem::path& path, int descriptor)
      : path_(path), descriptor_(descriptor) {}

  FileIdentity identity_now() const;

  std::filesystem::path path_;
  int descriptor_;
  FileIdentity identity_;
};

}  // namespace reprolab::reference
