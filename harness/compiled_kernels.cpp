#include "harness/compiled_kernels.hpp"

#include <fmt/format.h>

#include <cctype>
#include <cstdlib>
#include <utility>

#include "kernels/printable.hpp"

namespace reprolab {
namespace {

namespace fs = std::filesystem;

constexpr const char* remedy = "; make mojo or make triton writes it again";

/// 90 for a folder sm_90, 0 for any other name.
int capability_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  const bool digits = name.size() > 4 && name.size() < 7 &&
                      std::all_of(name.begin() + 3, name.end(),
                                  [](unsigned char c) { return std::isdigit(c) != 0; });
  return name.starts_with("sm_") && digits ? std::atoi(name.c_str() + 3) : 0;
}

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) entries.push_back(entry.path());
  std::ranges::sort(entries);
  return entries;
}

/// Whether a source was written after the manifest, or is gone.
bool is_newer(const fs::path& source, const fs::path& manifest) {
  std::error_code error;
  const auto written = fs::last_write_time(source, error);
  return error || written > fs::last_write_time(manifest);
}

/// The part of a kernel that is the same for every family, without variants.
PtxKernel kernel_of(const Manifest& manifest) {
  PtxKernel kernel;
  kernel.name = manifest.at("kernel");
  kernel.lineage = manifest.at("lineage");
  kernel.source_file = manifest.at("source_file");
  kernel.compiler = manifest.at("compiler");
  kernel.language = manifest.at("language");
  kernel.counterpart = manifest.value("counterpart", "");
  kernel.threads = manifest.at("threads");
  return kernel;
}

PtxVariant variant_of(const fs::path& folder, const Manifest& facts) {
  return {.file = (folder / facts.at("file").get<std::string>()).string(),
          .entry = facts.at("entry"),
          .shared_bytes = facts.at("shared_bytes"),
          .null_pointers = facts.at("null_pointers")};
}

}  // namespace

std::vector<CompiledKernel> read_compiled_kernels(const std::string& family,
                                                  const std::vector<std::string>& variants,
                                                  const fs::path& folder, const fs::path& root) {
  std::map<std::string, CompiledKernel> kernels;
  for (const fs::path& place : sorted_entries(folder)) {
    const int capability = capability_of(place);
    if (capability == 0) continue;
    for (const fs::path& path : sorted_entries(place)) {
      if (path.extension() != ".json") continue;
      const auto refuse = [&](const std::string& why) {
        throw UsageError(printable(path.string() + ": " + why + remedy));
      };
      const Manifest manifest = read_json(path);
      try {
        if (manifest.at("family") != family) continue;
        for (const std::string name : manifest.at("sources")) {
          if (is_newer(root / name, path)) refuse(name + " has changed");
        }
        const PtxKernel kernel = kernel_of(manifest);
        auto& all =
            kernels.try_emplace(kernel.name, CompiledKernel{kernel, manifest}).first->second;
        for (const auto& name : variants) {
          all.kernel.variants[capability][name] =
              variant_of(place, manifest.at("variants").at(name));
        }
      } catch (const Manifest::exception& error) {
        refuse(error.what());
      }
    }
  }
  std::vector<CompiledKernel> compiled;
  for (auto& [name, kernel] : kernels) compiled.push_back(std::move(kernel));
  return compiled;
}

}  // namespace reprolab
