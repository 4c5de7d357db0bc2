// A user's own libbitsandbytes_cuda*.so, loaded at run time, for the families that call it.
#pragma once

#include <filesystem>
#include <string>

#include "kernels/dynamic_library.hpp"
#include "kernels/registry.hpp"

namespace reprolab {

class BitsandbytesLibrary {
 public:
  /// Loads it. `argument` is its path, or NAME=path; without a name, it is named after the wheel's
  /// version if the wheel's metadata are next to the library's folder, else after the file. Throws
  /// std::runtime_error: one line on the fault and its remedy.
  explicit BitsandbytesLibrary(const std::string& argument);

  const DynamicLibrary& functions() const { return *functions_; }
  const std::string& name() const { return name_; }  ///< "bitsandbytes_0.47.0"

  /// Throws std::runtime_error: "peer <path>: <why>".
  [[noreturn]] void refuse(const std::string& why) const;

  /// Registers `kernel`, whose name begins with that of the library, as a peer of its maker: sets
  /// lineage, origin and files. Throws as above if the name cannot be used.
  template <class Problem>
  void add(Kernel<Problem> kernel) const {
    require_name(kernel.name, Registry<Problem>::instance().kernels().contains(kernel.name));
    kernel.lineage = maker_ + ", " + file_;
    kernel.origin = {Origin::Kind::peer, maker_};
    kernel.code_files = [files = std::vector<std::string>{kernel.source_file, path_.string()}](
                            int) { return files; };
    Registry<Problem>::instance().add(std::move(kernel));
  }

 private:
  void require_name(const std::string& kernel, bool is_taken) const;

  std::string given_path_, name_, maker_, file_;
  std::filesystem::path path_;
  std::optional<DynamicLibrary> functions_;
};

}  // namespace reprolab
