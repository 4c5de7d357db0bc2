// Includes of the end of a kernel's file: the number of blocks of a launch, the definition of the
// kernel, and the registrar. Without the headers of kernels/registry.hpp, as nvcc reads each header
// four times: a short kernel's file compiles twice as fast.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "kernels/contract.hpp"

namespace reprolab {

/// CUDA C++ Programming Guide, compute capabilities: the x dimension of a grid.
inline constexpr std::int64_t max_blocks = (std::int64_t{1} << 31) - 1;

/// Number of blocks that cover `count` elements, `per_block` each.
constexpr std::int64_t blocks_over(std::int64_t count, std::int64_t per_block) {
  return count / per_block + (count % per_block != 0 ? 1 : 0);
}

/// The grid of `blocks` blocks. `supports` refuses a problem with more than `max_blocks`; here the
/// number is clamped to one more, which no launch accepts.
constexpr unsigned grid_of(std::int64_t blocks) {
  return static_cast<unsigned>(blocks <= max_blocks ? blocks : max_blocks + 1);
}

/// Whether a kernel can run a problem; a "no" always carries the reason.
struct Support {
  bool ok = true;
  const char* reason = "";  ///< As long-lived as the process; unsupported() keeps other texts.

  static Support yes() { return {}; }
  static Support no(const char* why) { return {false, why}; }
};

template <class Problem>
struct Launcher;
template <class Problem>
struct Kernel;

/// A kernel whose code is in one file; kernels/registry.hpp documents the fields.
template <class Problem>
struct Definition {
  const char* name = "";
  const char* lineage = "";
  const char* source_file = "";
  Contract contract{};
  void (*expected_output)(const Problem&, std::int64_t, std::int64_t) = nullptr;
  Support (*supports)(const Problem&) = nullptr;
  cudaError_t (*launch)(const Problem&, cudaStream_t) = nullptr;
  std::uint64_t (*workspace_bytes)(const Problem&) = nullptr;
  Launcher<Problem> (*plan)(const Problem&) = nullptr;
};

/// `const Register<Problem> registered{{.name = ..., ...}};` ends a kernel's file. It links the
/// kernel into a list, from which Registry takes it.
template <class Problem>
struct Register {
  Register(const Definition<Problem>& stated) : definition(stated), next(linked(this)) {}

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
