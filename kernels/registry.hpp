// The registry of a kernel family: the description of a kernel, and the registrar at the end of its
// file that adds it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/origin.hpp"
#include "kernels/promise.hpp"

namespace reprolab {

/// Whether a kernel can run a problem; a "no" always carries the reason.
struct Support {
  bool ok = true;
  std::string reason;

  static Support yes() { return {}; }
  static Support no(std::string why) { return {false, std::move(why)}; }
};

/// Every bit of the output equals the reference's.
struct BitExact {};

/// The output differs from the reference's in a known way.
template <class Problem>
struct DeclaredDeviation {
  std::string text;  ///< The difference and its reason, in one sentence.

  /// Writes to elements [begin, end) of `host.output` exactly the bits that the kernel is declared
  /// to produce (all pointers of `host` are host memory). Elements that it does not write are those
  /// that the kernel is declared to leave unwritten.
  void (*expected_output)(const Problem& host, std::int64_t begin, std::int64_t end);
};

/// Every element lies in the interval that the family's reference proves for it, and is the same in
/// every run. For families whose kernels may differ in the order of roundings.
struct WithinBound {
  std::string text;  ///< The kernel's roundings and their order, in one sentence.
  /// The family's reading of a problem that the kernel computes, if there are several; each reading
  /// has its own interval.
  std::string reading{};
  /// Whether a row of a batch is bit for bit the same as the row alone.
  bool independent_of_batch = false;
};

/// The contract of a kernel about its output.
template <class Problem>
using Contract = std::variant<BitExact, DeclaredDeviation<Problem>, WithinBound>;

template <class Problem>
Promise promise_of(const Contract<Problem>& contract) {
  if (const auto* declared = std::get_if<DeclaredDeviation<Problem>>(&contract)) {
    return {Promise::Kind::declared_deviation, declared->text};
  }
  if (const auto* bound = std::get_if<WithinBound>(&contract)) {
    return {Promise::Kind::within_bound, bound->text, bound->reading, bound->independent_of_batch};
  }
  return {};
}

/// Enqueues a problem as Kernel::launch does.
template <class Problem>
using Launcher = std::function<cudaError_t(const Problem&, cudaStream_t)>;

/// One kernel of a family. `Problem` is the family's plain struct of device views.
template <class Problem>
struct Kernel {
  std::string name;           ///< The kernel's one idea, in snake_case; unique in the project.
  std::string lineage{};      ///< Where it comes from: paper section, post, release.
  std::string source_file{};  ///< From the root of the project; empty: kernels/<family>/<name>.cu.
  Contract<Problem> contract{};
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
  return std::holds_alternative<BitExact>(kernel.contract);
}

/// `static const Register<Problem> registered{{.name = ..., ...}};` ends a kernel's file. It only
/// links the kernel into a list, from which Registry takes it: each file would otherwise compile
/// the registry again.
template <class Problem>
struct Register {
  explicit Register(Kernel<Problem>&& stated) : kernel(std::move(stated)), next(first) {
    if (taken) std::abort();  // before main(), nobody asks for kernels
    first = this;
  }

  Kernel<Problem> kernel;
  const Register* next;
  inline static const Register* first = nullptr;
  inline static bool taken = false;  ///< Registry has all that were linked.
};

/// All kernels of a family, by name: those of its files, and those that are added at run time.
template <class Problem>
class Registry {
 public:
  static Registry& instance() {
    static Registry registry;
    return registry;
  }

  /// Aborts on a second kernel of the same name, because their rows could not be distinguished, and
  /// on one without `supports` or `launch`.
  void add(Kernel<Problem> kernel) {
    const std::string name = kernel.name;
    if (!kernel.supports || !kernel.launch) {
      std::fprintf(stderr, "reprolab: kernel '%s' needs .supports and .launch\n", name.c_str());
      std::abort();
    }
    if constexpr (requires { Problem::family; }) {
      if (kernel.source_file.empty()) {
        kernel.source_file = "kernels/" + std::string(Problem::family) + "/" + name + ".cu";
      }
    }
    if (!kernels_.emplace(name, std::move(kernel)).second) {
      std::fprintf(stderr, "reprolab: two kernels register the name '%s'; rename one\n",
                   name.c_str());
      std::abort();
    }
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
    for (const File* file = File::first; file != nullptr; file = file->next) add(file->kernel);
    return File::taken = true;
  }

  std::map<std::string, Kernel<Problem>> kernels_;
};

/// The kernel named `name`. Throws std::out_of_range if there is none.
template <class Problem>
const Kernel<Problem>& kernel_named(const std::string& name) {
  return Registry<Problem>::instance().kernels().at(name);
}

/// The deviation that a kernel declares. Throws std::bad_variant_access if it declares none.
template <class Problem>
const DeclaredDeviation<Problem>& declared_deviation(const std::string& name) {
  return std::get<DeclaredDeviation<Problem>>(kernel_named<Problem>(name).contract);
}

}  // namespace reprolab
