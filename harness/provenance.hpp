// The provenance of a result file's numbers: command, code, build, machine and clocks.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/family.hpp"
#include "profiling/instrument.hpp"
#include "profiling/machine.hpp"

namespace reprolab {

/// The GPU and the free memory, read by a separate process: the calling process must not call CUDA,
/// so that it can start workers.
struct Machine {
  nlohmann::json gpu;  ///< `provenance.gpu`.
  std::string pci_bus_id;
  FreeMemory free;
};

/// If there is no usable GPU, returns nullopt, and `*why_not` gives the reason in one line.
std::optional<Machine> find_machine(std::string* why_not);

/// Throws UsageError when there is no usable GPU.
Machine require_machine();

/// The GPU, in a worker. Throws UsageError when there is none.
profiling::Gpu require_gpu();

/// Runs a pass's measurements, observes the GPU meanwhile, and describes both: the file's
/// `provenance`, without the sources and metrics. `locked_mhz`: the locked SM clock.
nlohmann::json observe(const std::vector<std::string>& argv, profiling::InstrumentKind instrument,
                       std::uint64_t seed, const Machine& machine,
                       std::optional<unsigned> locked_mhz, const std::function<void()>& measure);

/// Sets the GPU's compute capability ("9.0") for the rows of this process and of the workers that
/// it starts later. Until then their code is unknown.
void set_code_target(const std::string& compute_capability);

/// The record's "code": its architecture, "sm_90" (`target`), and a digest by file (`sha256`): of
/// the machine code for this project's CUDA files, of the text for PTX
/// (profiling/sass/identity.py), of the bytes for a library. Null if some code is unknown, such as
/// if the driver compiles it for this GPU, or a library is missing.
nlohmann::ordered_json code_of(const VariantInfo& variant);

}  // namespace reprolab
