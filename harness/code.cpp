#include "harness/code.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "harness/errors.hpp"
#include "profiling/machine_code.hpp"

namespace reprolab {
namespace {

int target = 0;  ///< 90 for "9.0"; 0: not known.

/// All code of this program.
const std::vector<profiling::MachineCode>& own_code() {
  static const auto code = []() -> std::vector<profiling::MachineCode> {
    try {
      return profiling::machine_code_in("/proc/self/exe");
    } catch (const std::runtime_error& error) {
      complain("code", error.what());
      return {};
    }
  }();
  return code;
}

/// The build names code by its source's path from the root of the project; with -lineinfo nvcc
/// overrides that by the path on its command line.
bool is_of(const profiling::MachineCode& code, const std::string& source) {
  return code.source == source || code.source.ends_with("/" + source);
}

/// The part of a source's code that the driver selects: the same major version, the newest that is
/// not newer than the GPU. nullptr if there is none.
const profiling::MachineCode* chosen(const std::string& source) {
  const profiling::MachineCode* best = nullptr;
  for (const auto& code : own_code()) {
    if (!is_of(code, source)) continue;
    if (code.capability / 10 != target / 10 || code.capability > target) continue;
    if (best == nullptr || code.capability > best->capability) best = &code;
  }
  return best;
}

/// Whether a source has kernels; a source that only calls a library has none.
bool has_code(const std::string& source) {
  return std::ranges::any_of(own_code(), [&](const auto& code) { return is_of(code, source); });
}

/// A file's digest, computed once; "" if it cannot be read.
const std::string& digest_of_file(const std::string& path) {
  static std::map<std::string, std::string> known;
  const auto [entry, is_new] = known.try_emplace(path);
  if (is_new) {
    try {
      entry->second = profiling::file_digest(path);
    } catch (const std::runtime_error& error) {
      complain("code", error.what());
    }
  }
  return entry->second;
}

}  // namespace

void set_code_target(const std::string& compute_capability) {
  std::string digits = compute_capability;
  std::erase(digits, '.');
  target = std::stoi(digits);
}

nlohmann::ordered_json code_of(const VariantInfo& variant) {
  if (target == 0) return nullptr;
  const auto files = variant.code_files ? variant.code_files(target)
                                        : std::vector<std::string>{variant.source_file};
  int capability = target;
  std::map<std::string, std::string> sha256;
  for (const std::filesystem::path file : files) {
    if (file.extension() == ".cu") {
      if (!own_code().empty() && !has_code(file.string())) continue;
      const auto* code = chosen(file.string());
      if (code == nullptr) return nullptr;
      capability = code->capability;
      sha256[file.string()] = code->sha256;
    } else {
      const std::string& digest = digest_of_file(file.string());
      if (digest.empty()) return nullptr;
      sha256[file.filename().string()] = digest;
    }
  }
  if (sha256.empty()) return nullptr;
  return {{"target", "sm_" + std::to_string(capability)}, {"sha256", sha256}};
}

}  // namespace reprolab
