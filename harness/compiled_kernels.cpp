#include "harness/compiled_kernels.hpp"

#include <fmt/format.h>

#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

#include "common/fnv1a.hpp"
#include "common/plain_name.hpp"
#include "common/printable.hpp"

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

/// Refuses PTX whose sources have changed since: it would be measured under the wrong name.
void refuse_changed_sources(const Manifest& manifest, const fs::path& root) {
  const auto& sources = manifest.at("sources");
  if (!sources.is_object()) manifest.refuse("sources: expected fingerprints by path");
  for (const auto& [name, known] : sources.items()) {
    std::ifstream in(root / name, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (!in.is_open()) manifest.refuse("its source " + name + " is not there");
    if (known != fingerprint(text)) manifest.refuse(name + " has changed");
  }
}

/// The part of a kernel that is the same for every family, without variants.
PtxKernel kernel_of(const Manifest& manifest) {
  PtxKernel kernel;
  kernel.name = manifest.plain_name("kernel");
  if (kernel.name != manifest.path().stem()) {
    manifest.refuse("kernel: differs from the file's name");
  }
  kernel.lineage = manifest.text("lineage");
  kernel.source_file = manifest.text("source_file");
  kernel.compiler = manifest.text("compiler");
  kernel.language = manifest.plain_name("language");
  if (manifest.json().contains("counterpart")) {
    kernel.counterpart = manifest.plain_name("counterpart");
  }
  kernel.threads = static_cast<unsigned>(manifest.number("threads", 1, 1024));
  return kernel;
}

PtxVariant variant_of(const Manifest& manifest, const std::string& name) {
  const Manifest facts = manifest.object_at("variants").object_at(name);
  return {.file = (manifest.path().parent_path() / facts.plain_name("file")).string(),
          .entry = facts.text("entry"),
          // 48 KiB: a kernel that needs more must opt in.
          .shared_bytes = static_cast<unsigned>(facts.number("shared_bytes", 0, 48 << 10)),
          .null_pointers = facts.number("null_pointers", 0, max_null_pointers)};
}

/// Properties that must be the same for every architecture.
Manifest::Json common_facts(const Manifest& manifest) {
  Manifest::Json facts = manifest.json();
  facts.erase("variants");
  return facts;
}

}  // namespace

void Manifest::refuse(const std::string& why) const {
  throw UsageError(printable(path_.string() + ": " + why + remedy));
}

const Manifest::Json& Manifest::at(const std::string& key) const {
  if (!json_.is_object() || !json_.contains(key)) refuse(fmt::format("has no '{}'", key));
  return json_.at(key);
}

std::string Manifest::plain_name(const std::string& key) const {
  const std::string name = text(key);
  if (!is_plain_name(name)) refuse(fmt::format("{}: expected a plain name", key));
  return name;
}

std::string Manifest::text(const std::string& key) const {
  const Json& value = at(key);
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
    refuse(fmt::format("{}: expected a text", key));
  }
  return printable(value.get_ref<const std::string&>());
}

int Manifest::number(const std::string& key, int least, int most) const {
  const Json& json = at(key);
  // As a double, because it may be too large for any integer.
  const double value = json.is_number_integer() ? json.get<double>() : least - 1.0;
  if (value < least || value > most) {
    refuse(fmt::format("{}: expected a whole number from {} to {}", key, least, most));
  }
  return static_cast<int>(value);
}

std::string fingerprint(std::string_view text) { return fmt::format("{:016x}", fnv1a(text)); }

fs::path compiled_folder() { return project_root() / "build/ptx"; }

std::vector<CompiledKernel> read_compiled_kernels(const std::string& family,
                                                  const std::vector<std::string>& variants,
                                                  const fs::path& folder, const fs::path& root) {
  std::map<std::string, CompiledKernel> kernels;
  for (const fs::path& place : sorted_entries(folder)) {
    const int capability = capability_of(place);
    if (capability == 0) continue;
    for (const fs::path& path : sorted_entries(place)) {
      if (path.extension() != ".json") continue;
      const Manifest manifest(path);
      if (manifest.plain_name("family") != family) continue;
      refuse_changed_sources(manifest, root);
      const PtxKernel kernel = kernel_of(manifest);
      auto& known =
          kernels.try_emplace(kernel.name, CompiledKernel{kernel, manifest}).first->second;
      if (common_facts(known.manifest) != common_facts(manifest)) {
        manifest.refuse("differs from what is compiled for another architecture");
      }
      for (const auto& name : variants) {
        known.kernel.variants[capability][name] = variant_of(manifest, name);
      }
    }
  }
  std::vector<CompiledKernel> compiled;
  for (auto& [name, kernel] : kernels) compiled.push_back(std::move(kernel));
  return compiled;
}

}  // namespace reprolab
