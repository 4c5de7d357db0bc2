#include "harness/provenance.hpp"

#include <fmt/chrono.h>
#include <fmt/ranges.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "harness/buffer_sets.hpp"
#include "harness/errors.hpp"
#include "harness/result_file.hpp"
#include "harness/worker.hpp"
#include "profiling/clocks.hpp"

namespace reprolab {
namespace {

/// Of the sources.
struct Commit {
  std::string hash = "unknown";
  bool dirty = true;
};

/// Output of a git command in the checkout that the program was built from; nullopt on failure.
std::optional<std::string> git(const std::string& arguments) {
  setenv("REPROLAB_ROOT", project_root().c_str(), 1);  // no part of the shell's text
  const std::string command = fmt::format("git -C \"$REPROLAB_ROOT\" {} 2>/dev/null", arguments);
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string output;
  std::array<char, 256> chunk;
  while (std::fgets(chunk.data(), chunk.size(), pipe) != nullptr) output += chunk.data();
  if (pclose(pipe) != 0) return std::nullopt;
  while (!output.empty() && output.back() == '\n') output.pop_back();
  return output;
}

/// What rows depend on, as pathspecs of git: the lines of records/row_sources.
std::vector<std::string> row_sources() {
  std::vector<std::string> found;
  std::ifstream list(project_root() / "records/row_sources");
  for (std::string line; std::getline(list, line);) {
    if (!line.starts_with('#')) found.push_back(line);
  }
  return found;
}

/// The checkout's commit. If the sources were copied without their history, REPROLAB_COMMIT names
/// the commit, and REPROLAB_DIRTY=0 states that the sources are those of that commit.
Commit find_commit() {
  if (const char* given = std::getenv("REPROLAB_COMMIT")) {
    const std::string_view hash = given;
    if (hash.size() != 40 || hash.find_first_not_of("0123456789abcdef") != hash.npos) {
      throw UsageError("REPROLAB_COMMIT: give the 40 hexadecimal digits of a commit");
    }
    const char* dirty = std::getenv("REPROLAB_DIRTY");
    return {given, dirty == nullptr || std::string_view(dirty) != "0"};
  }
  const auto hash = git("rev-parse HEAD");
  const auto sources = row_sources();  // results may lie anywhere
  const auto changes = git(fmt::format("status --porcelain -- '{}'", fmt::join(sources, "' '")));
  return {hash.value_or("unknown"), !hash || !changes || !changes->empty() || sources.empty()};
}

}  // namespace

std::optional<Machine> find_machine(std::string* why_not) {
  Worker worker(
      [](const Worker::Json&, const Watchdog&) -> Worker::Json {
        std::string why_none;
        const auto gpu = profiling::find_gpu(&why_none);
        if (!gpu) return {{"why_none", why_none}};
        const FreeMemory free = free_memory();
        return {{"gpu", nlohmann::json(*gpu)},
                {"pci_bus_id", gpu->pci_bus_id},
                {"uuid", gpu->uuid},
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
  return Machine{json.at("gpu"),
                 json.at("pci_bus_id"),
                 json.at("uuid"),
                 {json.at("free_on_device"), json.at("free_on_host")}};
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
  const Commit commit = find_commit();  // before the pass, in which it may change
  std::string no_nvml;                  // without NVML, the values that it would give are null
  profiling::ClockObserver observer(
      profiling::find_nvml_device(machine.pci_bus_id, machine.uuid, &no_nvml));
  measure();
  observer.stop();
  const std::chrono::duration<double> runtime = std::chrono::system_clock::now() - started;
  nlohmann::json clocks = observer.summary();
  clocks["policy"] = locked_mhz ? "locked" : "observed";
  clocks["locked_mhz"] = locked_mhz ? nlohmann::json(*locked_mhz) : nullptr;
  return {{"started", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                                  fmt::gmtime(std::chrono::system_clock::to_time_t(started)))},
          {"runtime_s", runtime.count()},
          {"argv", argv},
          {"commit", commit.hash},
          {"dirty", commit.dirty},
          {"instrument", profiling::name(instrument)},
          {"seed", seed},
          {"build", profiling::describe_build()},
          {"host", profiling::describe_host()},
          {"gpu", machine.gpu},
          {"clocks", clocks}};
}

}  // namespace reprolab
