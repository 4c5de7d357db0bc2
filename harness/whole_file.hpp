// Files that are written whole or not at all, as by reprolab/output.py in Python.
#pragma once

#include <filesystem>
#include <string_view>

namespace reprolab {

/// Writes `text` to a file beside `path`, then renames it. Creates the folder, follows links, and
/// replaces nothing but regular files. If that fails, throws UsageError that names the path and the
/// option that gave it.
void write_whole(const std::filesystem::path& path, std::string_view text,
                 std::string_view option = "--output");

/// Throws the same error early, before hours of measurements are lost, and leaves no file.
void require_writable(const std::filesystem::path& path);

}  // namespace reprolab
