// The kernels compiled from other languages (`make mojo`, `make triton`), for every family: their
// manifests, and the languages that are not built. profiling/compile/__main__.py writes one beside
// the PTX of each kernel.
#pragma once

#include <algorithm>
#include <exception>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/errors.hpp"
#include "harness/result_file.hpp"
#include "kernels/ptx_kernel.hpp"
#include "kernels/registry.hpp"

namespace reprolab {

using Manifest = nlohmann::ordered_json;

/// A kernel with all of its variants, and one of its manifests, from which its family reads more.
struct CompiledKernel {
  PtxKernel kernel;
  Manifest manifest;
};

/// The kernels of a family in `folder`/sm_*/KERNEL.json, each with its PTX next to it (paths of
/// sources are from `root`). Throws UsageError of one line if a manifest is not as it is written
/// there, or is older than its kernel's sources: it would be measured under the wrong name.
std::vector<CompiledKernel> read_compiled_kernels(const std::string& family,
                                                  const std::vector<std::string>& variants,
                                                  const std::filesystem::path& folder,
                                                  const std::filesystem::path& root);

/// The compiled kernels of a family.
template <class Problem>
struct CompiledFamily {
  std::string name;                                ///< In manifests.
  std::vector<std::string> variants;               ///< Variants that every kernel has.
  std::map<std::string, std::string> commands;     ///< The target of `make` by language.
  void (*add)(const PtxKernel&, const Manifest&);  ///< Registers a kernel; reads its own facts.

  /// Registers the kernels in build/ptx of the project, in the first call alone. Throws UsageError,
  /// also if the family already has a kernel of the same name.
  void load() const {
    if (static bool loaded = false; std::exchange(loaded, true)) return;
    const auto folder = project_root() / "build/ptx";
    for (const auto& [kernel, manifest] :
         read_compiled_kernels(name, variants, folder, project_root())) {
      if (Registry<Problem>::instance().kernels().contains(kernel.name)) {
        throw UsageError(kernel.source_file + ": there is already a kernel named '" + kernel.name +
                         "'; rename one");
      }
      try {
        add(kernel, manifest);
      } catch (const std::exception& error) {
        throw UsageError(kernel.source_file + ": its manifest: " + error.what());
      }
    }
  }

  /// One line for each language without a registered kernel: "mojo: not built; make mojo".
  std::vector<std::string> languages_not_built() const {
    std::vector<std::string> lines;
    for (const auto& [language, command] : commands) {
      const bool built =
          std::ranges::any_of(Registry<Problem>::instance().kernels(),
                              [&](const auto& named) { return named.second.language == language; });
      if (!built) lines.push_back(language + ": not built; " + command);
    }
    return lines;
  }
};

}  // namespace reprolab
