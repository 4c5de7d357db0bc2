#include "harness/provenance.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <sstream>

#include "harness/errors.hpp"
#include "harness/result_file.hpp"
#include "harness/worker.hpp"
#include "profiling/clocks.hpp"

namespace reprolab {
namespace {

/// The machine code of one source file for one architecture.
struct MachineCode {
  int capability;  ///< 90 for sm_90.
  std::string sha256, source;
};

int target = 0;  ///< 90 for "9.0"; 0: not known.

/// The lines of profiling/sass/identity.py about a file; none if they are not known.
std::vector<MachineCode> digests_of(const std::string& file, bool whole = false) {
  std::vector<std::string> words{project_root() / "scripts/python", "-m", "sass", "digest"};
  if (whole) words.push_back("--whole");
  words.insert(words.end(), {"--", file});
  const auto text = output_of(words);
  if (!text) complain("code", (file + ": its digest is not known").c_str());
  std::vector<MachineCode> codes;
  std::istringstream lines(text.value_or(""));
  MachineCode code;
  while (lines >> code.capability >> code.sha256 && std::getline(lines >> std::ws, code.source)) {
    codes.push_back(code);
  }
  return codes;
}

/// All code of this program.
const std::vector<MachineCode>& own_code() {
  static const auto code = digests_of(std::filesystem::read_symlink("/proc/self/exe").string());
  return code;
}

/// The build names code by its source's path from the root of the project; with -lineinfo nvcc
/// overrides that by the path on its command line.
bool is_of(const MachineCode& code, const std::string& source) {
  return code.source == source || code.source.ends_with("/" + source);
}

/// The part of a source's code that the driver selects: the same major version, the newest that is
/// not newer than the GPU. nullptr if there is none.
const MachineCode* chosen(const std::string& source) {
  const MachineCode* best = nullptr;
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
    if (const auto codes = digests_of(path, /*whole=*/true); !codes.empty()) {
      entry->second = codes.front().sha256;
    }
  }
  return entry->second;
}

}  // namespace

void set_code_target(const std::string& compute_capability) {
  std::string digits = compute_capability;
  std::erase(digits, '.');
  target = std::stoi(digits);
  own_code();  // before a worker is forked, which inherits it
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

std::optional<Machine> find_machine(std::string* why_not) {
  Worker worker(
      [](const Worker::Json&, const Watchdog&) -> Worker::Json {
        std::string why_none;
        const auto gpu = profiling::find_gpu(&why_none);
        if (!gpu) return {{"why_none", why_none}};
        const FreeMemory free = free_memory();
        return {{"gpu", nlohmann::json(*gpu)},
                {"pci_bus_id", gpu->pci_bus_id},
                {"free_on_device", free.device_bytes},
                {"free_on_host", free.host_bytes}};
      },
      std::chrono::hours(1));
  const auto answer = worker.ask({{"name", "the GPU"}}, {"the GPU's description"});
  const auto& json = answer.json;
  if (json.is_null() || json.contains("why_none")) {
    *why_not = json.is_null() ? fmt::format("no device: {}.", answer.why_none)
                              : json.at("why_none").get<std::string>();
    return std::nullopt;
  }
  return Machine{
      json.at("gpu"), json.at("pci_bus_id"), {json.at("free_on_device"), json.at("free_on_host")}};
}

Machine require_machine() {
  std::string why_not;
  if (auto machine = find_machine(&why_not)) return *machine;
  throw UsageError(why_not + " A measurement needs an NVIDIA GPU; --dry-run needs none.");
}

profiling::Gpu require_gpu() {
  std::string why_not;
  if (auto gpu = profiling::find_gpu(&why_not)) return *gpu;
  throw UsageError(why_not);
}

nlohmann::json observe(const std::vector<std::string>& argv, profiling::InstrumentKind instrument,
                       std::uint64_t seed, const Machine& machine,
                       std::optional<unsigned> locked_mhz, const std::function<void()>& measure) {
  const auto started = std::chrono::system_clock::now();
  std::string no_nvml;  // without NVML, the values that it would give are null
  profiling::ClockObserver observer(profiling::find_nvml_device(machine.pci_bus_id, &no_nvml));
  measure();
  observer.stop();
  const std::chrono::duration<double> runtime = std::chrono::system_clock::now() - started;
  nlohmann::json clocks = profiling::summarize(observer.snapshots());
  clocks["policy"] = locked_mhz ? "locked" : "observed";
  clocks["locked_mhz"] = locked_mhz ? nlohmann::json(*locked_mhz) : nullptr;
  return {{"started", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                                  fmt::gmtime(std::chrono::system_clock::to_time_t(started)))},
          {"runtime_s", runtime.count()},
          {"argv", argv},
          {"instrument", profiling::name(instrument)},
          {"seed", seed},
          {"build", profiling::describe_build()},
          {"host", profiling::describe_host()},
          {"gpu", machine.gpu},
          {"clocks", clocks}};
}

}  // namespace reprolab
