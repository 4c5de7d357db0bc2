#include "harness/compiled_kernels.hpp"

#include <cstdlib>
#include <system_error>

#include "harness/result_file.hpp"
#include "kernels/printable.hpp"

namespace reprolab {
namespace {

namespace fs = std::filesystem;
using Manifest = nlohmann::ordered_json;

constexpr const char* remedy = "; make mojo or make triton writes it again";

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
  for (const auto& [name, value] : manifest.items()) {
    if (value.is_number_integer()) kernel.numbers[name] = value;
  }
  return kernel;
}

PtxVariant variant_of(const fs::path& folder, const Manifest& facts) {
  return {.file = (folder / facts.at("file").get<std::string>()).string(),
          .entry = facts.at("entry"),
          .shared_bytes = facts.at("shared_bytes"),
          .null_pointers = facts.at("null_pointers")};
}

}  // namespace

std::vector<PtxKernel> read_compiled_kernels(const std::string& family,
                                             const std::vector<std::string>& variants,
                                             const fs::path& root) {
  if (root.empty()) return read_compiled_kernels(family, variants, project_root());
  std::map<std::string, PtxKernel> kernels;
  std::error_code none_built;
  for (const auto& entry : fs::recursive_directory_iterator(root / "build/ptx", none_built)) {
    const fs::path& path = entry.path();
    const fs::path place = path.parent_path();
    if (path.extension() != ".json" || !place.filename().string().starts_with("sm_")) continue;
    const auto refuse = [&](const std::string& why) {
      throw UsageError(printable(path.string() + ": " + why + remedy));
    };
    const Manifest manifest = read_json(path);
    try {
      if (manifest.at("family") != family) continue;
      for (const std::string name : manifest.at("sources")) {
        if (is_newer(root / name, path)) refuse(name + " has changed");
      }
      const int capability = std::atoi(place.filename().c_str() + 3);  // of "sm_90"
      const PtxKernel kernel = kernel_of(manifest);
      auto& all = kernels.try_emplace(kernel.name, kernel).first->second;
      for (const auto& name : variants) {
        all.variants[capability][name] = variant_of(place, manifest.at("variants").at(name));
      }
    } catch (const Manifest::exception& error) {
      refuse(error.what());
    }
  }
  std::vector<PtxKernel> compiled;
  for (auto& [name, kernel] : kernels) compiled.push_back(std::move(kernel));
  return compiled;
}

}  // namespace reprolab
