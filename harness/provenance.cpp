#include "harness/provenance.hpp"

#include <fmt/chrono.h>

#include <chrono>

#include "harness/buffer_sets.hpp"
#include "harness/errors.hpp"
#include "harness/result_file.hpp"
#include "harness/worker.hpp"
#include "profiling/clocks.hpp"

namespace reprolab {
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
  std::string no_nvml;  // without NVML, the values that it would give are null
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
          {"instrument", profiling::name(instrument)},
          {"seed", seed},
          {"build", profiling::describe_build()},
          {"host", profiling::describe_host()},
          {"gpu", machine.gpu},
          {"clocks", clocks}};
}

}  // namespace reprolab
