#include "harness/compiled_kernels.hpp"

#include <fmt/format.h>

#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

#include "common/plain_name.hpp"
#include "common/printable.hpp"

namespace reprolab {
namespace {

namespace fs = std::filesystem;

constexpr const char* remedy = "; make mojo or make triton writes it anew";

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
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

}  // namespace

Manifest::Manifest(const fs::path& path) : path_(path), json_(read_json(path)) {}

void Manifest::refuse(const std::string& why) const {
  throw UsageError(printable(path_.string() + ": " + why + remedy));
}

const Manifest::Json& Manifest::at(const Json& object, const std::string& key) const {
  if (!object.is_object() || !object.contains(key)) refuse(fmt::format("has no '{}'", key));
  return object.at(key);
}

std::string Manifest::plain_name(const Json& object, const char* key) const {
  const std::string found = text(object, key);
  if (!is_plain_name(found)) refuse(fmt::format("{}: expected a plain name", key));
  return found;
}

std::string Manifest::text(const Json& object, const char* key) const {
  const Json& found = at(object, key);
  if (!found.is_string() || found.get_ref<const std::string&>().empty()) {
    refuse(fmt::format("{}: expected a text", key));
  }
  return printable(found.get_ref<const std::string&>());
}

int Manifest::number(const Json& object, const char* key, int least, int most) const {
  const Json& found = at(object, key);
  // As a double, because it may be too large for any integer.
  const double value = found.is_number_integer() ? found.get<double>() : least - 1.0;
  if (value < least || value > most) {
    refuse(fmt::format("{}: expected a whole number from {} to {}", key, least, most));
  }
  return static_cast<int>(value);
}

void Manifest::refuse_changed_sources(const fs::path& root) const {
  const Json& sources = at(json_, "sources");
  if (!sources.is_object()) refuse("sources: expected fingerprints by path");
  for (const auto& [name, known] : sources.items()) {
    std::ifstream in(root / name, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (!in.is_open()) refuse("its source " + name + " is not there");
    if (known != fingerprint(text)) refuse(name + " has changed");
  }
}

PtxKernel Manifest::kernel() const {
  PtxKernel found;
  found.name = plain_name("kernel");
  if (found.name != path_.stem()) refuse("kernel: differs from the file's name");
  found.lineage = text("lineage");
  found.source_file = text("source_file");
  found.compiler = text("compiler");
  found.language = plain_name("language");
  if (json_.contains("counterpart")) found.counterpart = plain_name("counterpart");
  found.threads = static_cast<unsigned>(number("threads", 1, 1024));
  return found;
}

PtxVariant Manifest::variant(const std::string& name) const {
  const Json& facts = at(at(json_, "variants"), name);
  return {.file = (path_.parent_path() / plain_name(facts, "file")).string(),
          .entry = text(facts, "entry"),
          // What a kernel may use without asking for more.
          .shared_bytes = static_cast<unsigned>(number(facts, "shared_bytes", 0, 48 << 10)),
          .null_pointers = number(facts, "null_pointers", 0, max_null_pointers)};
}

Manifest::Json Manifest::common_facts() const {
  Json facts = json_;
  facts.erase("variants");
  return facts;
}

std::string fingerprint(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return fmt::format("{:016x}", hash);
}

fs::path compiled_folder() { return project_root() / "build/ptx"; }

std::vector<CompiledKernel> read_compiled_kernels(const CompiledFamily& family,
                                                  const fs::path& folder, const fs::path& root) {
  std::map<std::string, CompiledKernel> kernels;
  for (const fs::path& place : sorted_entries(folder)) {
    const int capability = capability_of(place);
    if (capability == 0) continue;
    for (const fs::path& path : sorted_entries(place)) {
      if (path.extension() != ".json") continue;
      const Manifest manifest(path);
      if (manifest.plain_name("family") != family.name) continue;
      manifest.refuse_changed_sources(root);
      const PtxKernel kernel = manifest.kernel();
      auto& known =
          kernels.try_emplace(kernel.name, CompiledKernel{kernel, manifest}).first->second;
      if (known.manifest.common_facts() != manifest.common_facts()) {
        manifest.refuse("differs from what is compiled for another architecture");
      }
      for (const auto& name : family.variants) {
        known.kernel.variants[capability][name] = manifest.variant(name);
      }
    }
  }
  std::vector<CompiledKernel> found;
  for (auto& [name, kernel] : kernels) found.push_back(std::move(kernel));
  return found;
}

}  // namespace reprolab
