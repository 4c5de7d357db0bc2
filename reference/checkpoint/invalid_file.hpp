// The one exception that a file's content can cause.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

namespace reprolab::reference {

/// One line: the file, the tensor if there is one, what is wrong, and what to do.
class InvalidFile : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A name from a file, made fit for a one-line message: quoted, printable (common/printable.hpp),
/// and cut at a character to at most 120 bytes.
std::string quote_name(std::string_view name);

/// Throws InvalidFile: "PATH: FAULT".
[[noreturn]] void reject_file(const std::filesystem::path& path, std::string_view fault);

/// Throws InvalidFile: "PATH: tensor 'NAME' FAULT".
[[noreturn]] void reject_tensor(const std::filesystem::path& path, std::string_view tensor,
                                std::string_view fault);

}  // namespace reprolab::reference
