// The registry of a kernel family: its kernels as programs use them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/definition.hpp"
#include "kernels/origin.hpp"
#include "kernels/printable.hpp"

namespace reprolab {

/// A "no" whose reason is put together at run time.
inline Support unsupported(const std::string& why) { return Support::no(lasting(why)); }

/// Enqueues a problem as Kernel::launch does.
template <class Problem>
struct Launcher : std::function<cudaError_t(const Problem&, cudaStream_t)> {
  using std::function<cudaError_t(const Problem&, cudaStream_t)>::function;
};

/// One kernel of a family. `Problem` is the family's plain struct of device views.
template <class Problem>
struct Kernel {
  std::string name;           ///< The kernel's one idea, in snake_case; unique in the project.
  std::string lineage{};      ///< Where it comes from: paper section, post, release.
  std::string source_file{};  ///< From the root of the project; empty: kernels/<family>/<name>.cu.
  Contract contract{};
  /// For a declared deviation: writes to elements [begin, end) of `host.output` exactly the bits
  /// that the kernel is declared to produce (all pointers of `host` are host memory). Elements that
  /// it does not write are those that the kernel is declared to leave unwritten.
  void (*expected_output)(const Problem& host, std::int64_t begin, std::int64_t end) = nullptr;
  /// Whether `launch` may be called with a problem; a problem that it rejects is never launched.
  std::function<Support(const Problem&)> supports;
  /// Enqueues all of the work on the stream without waiting; returns cudaGetLastError().
  Launcher<Problem> launch;
  Origin origin{};
  /// Files with the code that `launch` runs, on a GPU of that compute capability (90): paths of
  /// this project's CUDA files (from its root), of PTX, and of libraries. Empty: `source_file`
  /// alone.
  std::function<std::vector<std::string>(int capability)> code_files{};
  std::string language = "cuda";
  /// The CUDA kernel that this kernel implements in another language; empty: none.
  std::string counterpart{};
  /// Device memory that a launch needs in `Problem::workspace`; empty: none.
  std::function<std::uint64_t(const Problem&)> workspace_bytes{};
  /// Does the work that launches on the current device share, and returns a launcher for problems
  /// that differ from this one only in what the family lets change between launches; `launch` is
  /// then the first launch of a plan. Empty: launches share nothing.
  std::function<Launcher<Problem>(const Problem&)> plan{};
};

template <class Problem>
bool is_bit_exact(const Kernel<Problem>& kernel) {
  return kernel.contract.kind == Contract::Kind::bit_exact;
}

template <class Problem>
Kernel<Problem> kernel_of(const Definition<Problem>& stated) {
  Kernel<Problem> kernel{};
  kernel.name = stated.name;
  kernel.lineage = stated.lineage;
  kernel.source_file = stated.source_file;
  kernel.contract = stated.contract;
  kernel.expected_output = stated.expected_output;
  kernel.supports = stated.supports;
  kernel.launch = Launcher<Problem>(stated.launch);
  kernel.workspace_bytes = stated.workspace_bytes;
  kernel.plan = stated.plan;
  return kernel;
}

/// All kernels of a family, by name: those of its files, and those that are added at run time.
template <class Problem>
class Registry {
 public:
  static Registry& instance() {
    static Registry registry;
    return registry;
  }

  /// Aborts on a second kernel of the same name, because their rows could not be distinguished, and
  /// on one without `supports` or `launch`, or with a declared deviation and no output.
  void add(Kernel<Problem> kernel) {
    const std::string name = kernel.name;
    const auto require = [&](bool holds, const char* otherwise) {
      if (holds) return;
      std::fprintf(stderr, "reprolab: kernel '%s' %s\n", name.c_str(), otherwise);
      std::abort();
    };
    require(kernel.supports && kernel.launch, "needs .supports and .launch");
    require(kernel.contract.deviates() == (kernel.expected_output != nullptr),
            "needs .expected_output if it declares a deviation, and only then");
    if constexpr (requires { Problem::family; }) {
      if (kernel.source_file.empty()) {
        kernel.source_file = "kernels/" + std::string(Problem::family) + "/" + name + ".cu";
      }
    }
    require(kernels_.emplace(name, std::move(kernel)).second, "is registered twice; rename one");
  }

  /// The first call, which any thread may make, adds those of the files.
  const std::map<std::string, Kernel<Problem>>& kernels() {
    [[maybe_unused]] static const bool taken = take_files();
    return kernels_;
  }

 private:
  Registry() = default;

  bool take_files() {
    using File = Register<Problem>;
    for (const File* file = File::first; file != nullptr; file = file->next) {
      add(file->make ? file->make() : kernel_of(file->definition));
    }
    return File::taken = true;
  }

  std::map<std::string, Kernel<Problem>> kernels_;
};

/// The kernel named `name`. Throws std::out_of_range if there is none.
template <class Problem>
const Kernel<Problem>& kernel_named(const std::string& name) {
  return Registry<Problem>::instance().kernels().at(name);
}

}  // namespace reprolab
