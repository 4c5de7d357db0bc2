#include "harness/whole_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "harness/errors.hpp"

namespace reprolab {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, std::string_view text, std::string_view option, bool in_place) {
  const auto refuse = [&](const std::string& why) {
    throw UsageError(
        fmt::format("{}: cannot be written ({}); choose another {}", path.string(), why, option));
  };
  try {
    if (fs::exists(path) && !fs::is_regular_file(path)) refuse("not a regular file");
    const fs::path place = fs::weakly_canonical(fs::absolute(path));
    if (!place.has_filename()) refuse("not a file name");
    fs::create_directories(place.parent_path());
    const fs::path beside = place.string() + ".tmp";
    std::ofstream file(beside, std::ios::binary);
    file << text;
    file.close();
    const std::string why = file ? "" : std::strerror(errno);
    if (why.empty() && in_place) return fs::rename(beside, place);
    fs::remove(beside);
    if (!why.empty()) refuse(why);
  } catch (const fs::filesystem_error& error) {
    refuse(error.code().message());
  }
}

}  // namespace

void write_whole(const fs::path& path, std::string_view text, std::string_view option) {
  write(path, text, option, /*in_place=*/true);
}

void require_writable(const fs::path& path) { write(path, "", "--output", /*in_place=*/false); }

}  // namespace reprolab
