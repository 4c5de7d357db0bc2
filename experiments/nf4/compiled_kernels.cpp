#include "experiments/nf4/compiled_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <map>

#include "common/plain_name.hpp"
#include "common/printable.hpp"
#include "experiments/harness/errors.hpp"
#include "experiments/harness/result_file.hpp"
#include "kernels/nf4/problem.hpp"
#include "kernels/registry.hpp"

namespace reprolab::nf4 {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::array languages = {"mojo", "triton"};
constexpr std::array variant_names = {"fp16", "bf16", "fp16_nested", "bf16_nested"};
constexpr const char* remedy = "; make mojo or make triton writes it anew";

/// A kernel's description; every fault is one line that names the file.
class Manifest {
 public:
  explicit Manifest(const fs::path& path) : path_(path), json_(read_json(path)) {}

  [[noreturn]] void refuse(const std::string& why) const {
    throw UsageError(printable(path_.string() + ": " + why + remedy));
  }

  /// The plain name under `key`.
  std::string plain_name(const Json& object, const char* key) const {
    const std::string found = text(object, key);
    if (!is_plain_name(found)) refuse(fmt::format("{}: expected a plain name", key));
    return found;
  }

  std::string text(const Json& object, const char* key) const {
    const Json& found = at(object, key);
    if (!found.is_string() || found.get_ref<const std::string&>().empty()) {
      refuse(fmt::format("{}: expected a text", key));
    }
    return printable(found.get_ref<const std::string&>());
  }

  int number(const Json& object, const char* key, int least, int most) const {
    const Json& found = at(object, key);
    // As a double, because it may be too large for any integer.
    const double value = found.is_number_integer() ? found.get<double>() : least - 1.0;
    if (value < least || value > most) {
      refuse(fmt::format("{}: expected a whole number from {} to {}", key, least, most));
    }
    return static_cast<int>(value);
  }

  const Json& at(const Json& object, const char* key) const {
    if (!object.is_object() || !object.contains(key)) refuse(fmt::format("has no '{}'", key));
    return object.at(key);
  }

  /// A PTX of code older than the source would be measured under the wrong name.
  void refuse_newer_sources(const fs::path& root) const {
    const Json& sources = at(json_, "sources");
    if (!sources.is_array()) refuse("sources: expected a list");
    for (const Json& source : sources) {
      if (!source.is_string()) refuse("sources: expected a list of texts");
      const auto name = source.get<std::string>();
      std::error_code missing, unknown;
      const auto changed = fs::last_write_time(root / name, missing);
      if (missing) refuse("its source " + name + " is not there");
      if (changed > fs::last_write_time(path_, unknown)) refuse(name + " is newer");
    }
  }

  PtxVariant variant(const char* name) const {
    const Json& facts = at(at(json_, "variants"), name);
    return {.file = (path_.parent_path() / plain_name(facts, "file")).string(),
            .entry = text(facts, "entry"),
            // What a kernel may use without asking for more.
            .shared_bytes = static_cast<unsigned>(number(facts, "shared_bytes", 0, 48 << 10)),
            .null_pointers = number(facts, "null_pointers", 0, max_null_pointers)};
  }

  PtxKernel kernel() const {
    PtxKernel found;
    found.name = plain_name(json_, "kernel");
    if (found.name != path_.stem()) refuse("kernel: differs from the file's name");
    found.lineage = text(json_, "lineage");
    found.source_file = text(json_, "source_file");
    found.compiler = text(json_, "compiler");
    found.make_target = plain_name(json_, "language");
    found.threads = static_cast<unsigned>(number(json_, "threads", 1, 1024));
    found.weights_per_block = number(json_, "weights_per_block", 1, 1 << 20);
    found.pointer_alignment = number(json_, "pointer_alignment", 1, 16);
    found.weights_multiple = number(json_, "weights_multiple", 1, 1 << 20);
    return found;
  }

  /// What must be the same for every architecture.
  Json common_facts() const {
    Json facts = json_;
    facts.erase("variants");
    return facts;
  }

 private:
  fs::path path_;
  Json json_;
};

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

fs::path compiled_folder() { return project_root() / "build/ptx"; }

std::vector<PtxKernel> read_compiled_kernels(const fs::path& folder, const fs::path& root) {
  std::map<std::string, std::pair<PtxKernel, Json>> kernels;
  for (const fs::path& place : sorted_entries(folder)) {
    const int capability = capability_of(place);
    if (capability == 0) continue;
    for (const fs::path& path : sorted_entries(place)) {
      if (path.extension() != ".json") continue;
      const Manifest manifest(path);
      manifest.refuse_newer_sources(root);
      PtxKernel kernel = manifest.kernel();
      auto& [known, facts] =
          kernels.try_emplace(kernel.name, kernel, manifest.common_facts()).first->second;
      if (facts != manifest.common_facts()) {
        manifest.refuse("differs from what is compiled for another architecture");
      }
      for (const char* name : variant_names) {
        known.variants[capability][name] = manifest.variant(name);
      }
    }
  }
  std::vector<PtxKernel> found;
  for (auto& [name, kernel] : kernels) found.push_back(std::move(kernel.first));
  return found;
}

void load_compiled_kernels() {
  for (const PtxKernel& kernel : read_compiled_kernels(compiled_folder(), project_root())) {
    if (Registry<Problem>::instance().kernels().contains(kernel.name)) {
      throw UsageError(kernel.source_file + ": there is already a kernel named '" + kernel.name +
                       "'; rename one");
    }
    add_ptx_kernel(kernel);
  }
}

std::vector<std::string> languages_not_built() {
  std::vector<std::string> lines;
  const auto& kernels = Registry<Problem>::instance().kernels();
  for (const std::string language : languages) {
    const bool built = std::ranges::any_of(kernels, [&](const auto& named) {
      return named.second.origin.kind == Origin::Kind::compiler &&
             named.first.starts_with(language + "_");
    });
    if (!built) lines.push_back(fmt::format("{0}: not built; make {0}", language));
  }
  return lines;
}

}  // namespace reprolab::nf4
