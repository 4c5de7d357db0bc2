#include "kernels/bitsandbytes_library.hpp"

#include <stdexcept>

#include "kernels/printable.hpp"

namespace reprolab {
namespace {

/// The version in a name like "bitsandbytes-0.47.0" plus `suffix`, else "".
std::string version_in(const std::filesystem::path& path, const std::string& suffix) {
  const std::string name = path.filename().string(), before = "bitsandbytes-";
  if (!name.starts_with(before) || !name.ends_with(suffix)) return "";
  return printable(name.substr(before.size(), name.size() - before.size() - suffix.size()));
}

/// The version of the unpacked or installed wheel with the library: from its metadata, or else from
/// the folder's name, as `make peer` gives it, because a copy may lack the metadata.
std::string wheel_version(const std::filesystem::path& library) {
  const auto site = library.lexically_normal().parent_path().parent_path();
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(site, ignored)) {
    const std::string version = version_in(entry.path(), ".dist-info");
    if (!version.empty()) return version;
  }
  return version_in(site, "");
}

}  // namespace

BitsandbytesLibrary::BitsandbytesLibrary(const std::string& argument) {
  auto equals = argument.find('=');
  if (argument.find('/') < equals) equals = std::string::npos;  // part of the path
  given_path_ = equals == std::string::npos ? argument : argument.substr(equals + 1);
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(given_path_, ignored)) {
    refuse("no such file; give the path of libbitsandbytes_cuda*.so");
  }
  path_ = std::filesystem::absolute(given_path_);
  file_ = printable(path_.filename().string());
  std::string why_not;
  functions_ = DynamicLibrary::open({path_.string()}, &why_not);
  if (!functions_) {
    refuse("cannot be loaded (" + why_not + "); put its CUDA libraries on LD_LIBRARY_PATH");
  }
  const std::string version = wheel_version(path_);
  maker_ = "bitsandbytes " + (version.empty() ? "(version unknown)" : version);
  const std::string stem = path_.stem().string();  // libbitsandbytes_cuda130
  const std::string own = version.empty() ? stem.substr(stem.find('_') + 1) : version;
  name_ = equals != std::string::npos ? argument.substr(0, equals) : "bitsandbytes_" + own;
}

void BitsandbytesLibrary::refuse(const std::string& why) const {
  throw std::runtime_error(printable("peer " + given_path_ + ": " + why));
}

void BitsandbytesLibrary::require_name(const std::string& kernel, bool is_taken) const {
  if (!is_plain_name(kernel)) {
    refuse("cannot be named '" + kernel + "'; give NAME=path, of " + std::string(plain_name_rule));
  }
  if (is_taken) {
    refuse("there is already a kernel named '" + kernel + "'; name this one: NAME=" + given_path_);
  }
}

}  // namespace reprolab
