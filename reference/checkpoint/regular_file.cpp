#include "reference/checkpoint/regular_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

namespace reprolab::reference {
namespace {

[[noreturn]] void reject_unopened(const std::filesystem::path& path) {
  reject_file(path, fmt::format("cannot be opened: {}; give a checkpoint's .safetensors file, "
                                "its index or their folder",
                                std::strerror(errno)));
}

void require_regular(const std::filesystem::path& path, const struct stat& status) {
  if (!S_ISREG(status.st_mode)) {
    reject_file(path, "is not a regular file; give a .safetensors file");
  }
}

/// Checked before opening, because opening a device can have side effects. O_NONBLOCK: the path may
/// have become a FIFO since.
int open_regular(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) reject_unopened(path);
  require_regular(path, status);
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) reject_unopened(path);
  return descriptor;
}

}  // namespace

/// An exception here closes the file, because the delegated constructor has completed.
RegularFile::RegularFile(const std::filesystem::path& path)
    : RegularFile(path, open_regular(path)) {
  identity_ = identity_now();
}

RegularFile::~RegularFile() { ::close(descriptor_); }

FileIdentity RegularFile::identity_now() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) reject_unopened(path_);
  require_regular(path_, status);
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .size_bytes = static_cast<std::uint64_t>(status.st_size),
          .modified_s = status.st_mtim.tv_sec,
          .modified_ns = status.st_mtim.tv_nsec};
}

void RegularFile::require_still(const FileIdentity& identity) const {
  if (identity_now() == identity) return;
  reject_file(path_, "was changed while it was read; verify it again");
}

void RegularFile::read_at(std::uint64_t offset, void* destination, std::uint64_t bytes) const {
  auto* out = static_cast<char*>(destination);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, out, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      reject_file(path_, fmt::format("cannot be read at byte {}: {}", offset,
                                     got < 0 ? std::strerror(errno) : "the file became shorter"));
    }
    out += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::uint64_t>(got);
  }
}

void RegularFile::require_content() const {
  constexpr std::string_view pointer = "version https://git-lfs.github.com/spec/";
  if (size_bytes() < pointer.size() || text_at(0, pointer.size()) != pointer) return;
  reject_file(path_, "is a Git LFS pointer, not the file itself; download it with git lfs pull");
}

std::string RegularFile::text_at(std::uint64_t offset, std::uint64_t bytes) const {
  std::string text(bytes, '\0');
  read_at(offset, text.data(), bytes);
  return text;
}

}  // namespace reprolab::reference
