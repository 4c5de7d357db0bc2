#include "experiments/harness/provenance.hpp"

#include <fmt/chrono.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "experiments/harness/errors.hpp"
#include "experiments/harness/result_file.hpp"

namespace reprolab {
namespace {

using Commit = PassObserver::Commit;

/// What a git command prints of the checkout that the program was built from; empty on failure.
std::optional<std::string> git(const std::string& arguments) {
  const std::string command =
      fmt::format("git -C '{}' {} 2>/dev/null", project_root().string(), arguments);
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string output;
  std::array<char, 256> chunk;
  while (std::fgets(chunk.data(), chunk.size(), pipe) != nullptr) output += chunk.data();
  if (pclose(pipe) != 0) return std::nullopt;
  while (!output.empty() && output.back() == '\n') output.pop_back();
  return output;
}

/// Of the checkout. Where the sources were copied without their history, REPROLAB_COMMIT names the
/// commit, and REPROLAB_DIRTY=0 vouches that they are that commit's.
Commit find_commit() {
  if (const char* given = std::getenv("REPROLAB_COMMIT")) {
    const char* dirty = std::getenv("REPROLAB_DIRTY");
    return {given, dirty == nullptr || std::string_view(dirty) != "0"};
  }
  const auto hash = git("rev-parse HEAD");
  // Results and build folders are ignored by git, so anything listed is a change of the code.
  const auto changes = git("status --porcelain");
  return {hash.value_or("unknown"), !hash || !changes || !changes->empty()};
}

profiling::Gpu require_gpu() {
  std::string why_not;
  const auto gpu = profiling::find_gpu(&why_not);
  if (!gpu) {
    throw UsageError(why_not + " A measurement needs an NVIDIA GPU; --dry-run does without.");
  }
  return *gpu;
}

}  // namespace

PassObserver::PassObserver(std::vector<std::string> argv, profiling::Instrument instrument,
                           std::uint64_t seed)
    : argv_(std::move(argv)),
      instrument_(instrument),
      seed_(seed),
      commit_(find_commit()),
      gpu_(require_gpu()) {
  std::string no_nvml;  // then all it would have seen is null
  clocks_.emplace(profiling::find_nvml_device(gpu_, &no_nvml));
  clocks_->start();
}

nlohmann::json PassObserver::describe() {
  clocks_->stop();
  const std::chrono::duration<double> runtime = std::chrono::system_clock::now() - started_;
  const auto started = std::chrono::system_clock::to_time_t(started_);
  nlohmann::json clocks = clocks_->summary();
  clocks["policy"] = "observed";
  clocks["locked_mhz"] = nullptr;
  return {{"started", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(started))},
          {"runtime_s", runtime.count()},
          {"argv", argv_},
          {"commit", commit_.hash},
          {"dirty", commit_.dirty},
          {"instrument", profiling::name(instrument_)},
          {"seed", seed_},
          {"build", profiling::describe_build()},
          {"host", profiling::describe_host()},
          {"gpu", gpu_},
          {"clocks", clocks}};
}

std::vector<std::string> to_strings(int argc, char** argv) { return {argv, argv + argc}; }

}  // namespace reprolab
