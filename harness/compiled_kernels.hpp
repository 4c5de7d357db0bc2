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
#include "kernels/ptx_kernel.hpp"
#include "kernels/registry.hpp"

namespace reprolab {

/// The kernels of a family in build/ptx/sm_*/KERNEL.json of the checkout in `root`, or of this one,
/// each with its PTX next to it. Throws UsageError of one line if a manifest is not as it is
/// written there, or is older than its kernel's sources: it would be measured under the wrong name.
std::vector<PtxKernel> read_compiled_kernels(const std::string& family,
                                             const std::vector<std::string>& variants,
                                             const std::filesystem::path& root = {});

/// The compiled kernels of a family.
template <class Problem>
struct CompiledFamily {
  std::string name;                             ///< In manifests.
  std::vector<std::string> variants;            ///< Variants that every kernel has.
  std::map<std::string, std::string> commands;  ///< The target of `make` by language.
  void (*add)(const PtxKernel&);                ///< Registers a kernel.

  /// Registers the kernels in build/ptx of the project, in the first call alone. Throws UsageError,
  /// also if the family already has a kernel of the same name.
  void load() const {
    if (static bool loaded = false; std::exchange(loaded, true)) return;
    for (const PtxKernel& kernel : read_compiled_kernels(name, variants)) {
      if (Registry<Problem>::instance().kernels().contains(kernel.name)) {
        throw UsageError(kernel.source_file + ": there is already a kernel named '" + kernel.name +
                         "'; rename one");
      }
      try {
        add(kernel);
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
