// A user's own libbitsandbytes_cuda*.so, loaded at run time, for the families that call it.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>

#include "kernels/dynamic_library.hpp"
#include "kernels/registry.hpp"

namespace reprolab {

class BitsandbytesLibrary {
 public:
  /// Loads it. `argument` is its path, or NAME=path; without a name, it is named after the wheel's
  /// version if the wheel's metadata are next to the library's folder, else after the file. Throws
  /// std::runtime_error: one line on the fault and its remedy.
  explicit BitsandbytesLibrary(const std::string& argument) {
    auto equals = argument.find('=');
    if (argument.find('/') < equals) equals = std::string::npos;  // part of the path
    given_path_ = equals == std::string::npos ? argument : argument.substr(equals + 1);
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(given_path_, ignored)) {
      refuse("no such file; give the path of libbitsandbytes_cuda*.so");
    }
    path_ = std::filesystem::absolute(given_path_);
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

  const DynamicLibrary& functions() const { return *functions_; }
  const std::string& name() const { return name_; }  ///< "bitsandbytes_0.47.0"

  /// Throws std::runtime_error: "peer <path>: <why>".
  [[noreturn]] void refuse(const std::string& why) const {
    throw std::runtime_error(printable("peer " + given_path_ + ": " + why));
  }

  /// Registers `kernel`, whose name begins with that of the library, as a peer of its maker: sets
  /// lineage, origin and files. Throws as above if the name cannot be used.
  template <class Problem>
  void add(Kernel<Problem> kernel) const {
    if (!is_plain_name(kernel.name)) {
      const std::string rule(plain_name_rule);
      refuse("cannot be named '" + kernel.name + "'; give NAME=path, of " + rule);
    }
    if (Registry<Problem>::instance().kernels().contains(kernel.name)) {
      const std::string then = "name this one: NAME=" + given_path_;
      refuse("there is already a kernel named '" + kernel.name + "'; " + then);
    }
    kernel.lineage = maker_ + ", " + printable(path_.filename().string());
    kernel.origin = {Origin::Kind::peer, maker_};
    kernel.code_files = [files = std::vector<std::string>{kernel.source_file, path_.string()}](
                            int) { return files; };
    Registry<Problem>::instance().add(std::move(kernel));
  }

 private:
  /// The version in a name like "bitsandbytes-0.47.0" plus `suffix`, else "".
  static std::string version_in(const std::filesystem::path& path, const std::string& suffix) {
    const std::string name = path.filename().string(), before = "bitsandbytes-";
    if (!name.starts_with(before) || !name.ends_with(suffix)) return "";
    return printable(name.substr(before.size(), name.size() - before.size() - suffix.size()));
  }

  /// The version of the unpacked or installed wheel with the library: from its metadata, or else
  /// from the folder's name, as `make peer` gives it, because a copy may lack the metadata.
  static std::string wheel_version(const std::filesystem::path& library) {
    const auto site = library.lexically_normal().parent_path().parent_path();
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(site, ignored)) {
      const std::string version = version_in(entry.path(), ".dist-info");
      if (!version.empty()) return version;
    }
    return version_in(site, "");
  }

  std::string given_path_, name_, maker_;
  std::filesystem::path path_;
  std::optional<DynamicLibrary> functions_;
};

}  // namespace reprolab
