// The definition of a kernel, at the end of its file, and the registrar. Without the headers of
// kernels/registry.hpp, as nvcc reads each header four times: a short kernel's file compiles twice
// as fast.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace reprolab {

/// Whether a kernel can run a problem; a "no" always carries the reason.
struct Support {
  bool ok = true;
  const char* reason = "";  ///< As long-lived as the process; unsupported() keeps other texts.

  static Support yes() { return {}; }
  static Support no(const char* why) { return {false, why}; }
};

/// Every bit of the output equals the reference's.
struct BitExact {};

/// The output differs from the reference's in a known way.
template <class Problem>
struct DeclaredDeviation {
  const char* text;  ///< The difference and its reason, in one sentence.

  /// Writes to elements [begin, end) of `host.output` exactly the bits that the kernel is declared
  /// to produce (all pointers of `host` are host memory). Elements that it does not write are those
  /// that the kernel is declared to leave unwritten.
  void (*expected_output)(const Problem& host, std::int64_t begin, std::int64_t end);
};

/// Every element lies in the interval that the family's reference proves for it, and is the same in
/// every run. For families whose kernels may differ in the order of roundings.
struct WithinBound {
  const char* text;  ///< The kernel's roundings and their order, in one sentence.
  /// The family's reading of a problem that the kernel computes, if there are several; each reading
  /// has its own interval.
  const char* reading = "";
  /// Whether a row of a batch is bit for bit the same as the row alone.
  bool independent_of_batch = false;
};

enum class ContractKind { bit_exact, declared_deviation, within_bound };

/// The contract of a kernel about its output: one of the three above.
template <class Problem>
struct Contract {
  Contract(BitExact = {}) {}
  Contract(const DeclaredDeviation<Problem>& declared)
      : kind(ContractKind::declared_deviation), deviation(declared) {}
  Contract(const WithinBound& proven) : kind(ContractKind::within_bound), bound(proven) {}

  ContractKind kind = ContractKind::bit_exact;
  DeclaredDeviation<Problem> deviation{"", nullptr};
  WithinBound bound{""};
};

template <class Problem>
struct Launcher;
template <class Problem>
struct Kernel;

/// A kernel whose code is in its own file alone; kernels/registry.hpp documents the fields.
template <class Problem>
struct Definition {
  const char* name = "";
  const char* lineage = "";
  Contract<Problem> contract{};
  Support (*supports)(const Problem&) = nullptr;
  cudaError_t (*launch)(const Problem&, cudaStream_t) = nullptr;
  std::uint64_t (*workspace_bytes)(const Problem&) = nullptr;
  Launcher<Problem> (*plan)(const Problem&) = nullptr;
};

/// `const Register<Problem> registered{{.name = ..., ...}};` ends a kernel's file. It links the
/// kernel into a list, from which Registry takes it.
template <class Problem>
struct Register {
  explicit Register(const Definition<Problem>& stated) : definition(stated), next(linked(this)) {}

  /// For a kernel that launches the code of other files.
  explicit Register(Kernel<Problem> (*made_by)()) : make(made_by), next(linked(this)) {}

  Definition<Problem> definition{};
  Kernel<Problem> (*make)() = nullptr;
  const Register* next;
  inline static const Register* first = nullptr;
  inline static bool taken = false;  ///< Registry has all that were linked.

 private:
  static const Register* linked(const Register* last) {
    if (taken) {
      std::fprintf(stderr,
                   "reprolab: kernel '%s' was loaded after the kernels were listed; link it\n",
                   last->definition.name);
      std::abort();
    }
    const Register* const before = first;
    first = last;
    return before;
  }
};

}  // namespace reprolab
