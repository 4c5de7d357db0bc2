// Argument checks and error messages that all functions of the library share.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string>

#include "kernels/nf4_product/problem.hpp"
#include "kernels/registry.hpp"

/// A plan, which users of the library have as an opaque pointer.
struct reprolab_nf4_plan {
  std::string kernel;
  reprolab::nf4_product::Problem problem;  ///< Without activations.
  int device;
  bool needs_workspace;
  reprolab::Launcher<reprolab::nf4_product::Problem> launch;
};

namespace reprolab::dropin {

/// Success if the library has code for the current device, otherwise CUDA's error.
cudaError_t has_code();

/// The error of this thread's latest call; empty if it succeeded.
inline thread_local std::array<char, 1024> error_message{};

inline int succeed() {
  error_message[0] = '\0';
  return cudaSuccess;
}

/// One call of a library function; error messages begin with the function's name.
class Call {
 public:
  explicit Call(const char* function) : function_(function) {}

  /// For errors that CUDA returned.
  int fail(cudaError_t error, const std::string& why) const {
    cudaGetLastError();  // clears it: the caller's next CUDA call would return it again
    return set_error(error, why);
  }
  /// For invalid arguments; CUDA is not called.
  int refuse(const std::string& why) const { return set_error(cudaErrorInvalidValue, why); }

  /// The call's result for the error that a launch returned.
  int launched(const std::string& kernel, cudaError_t error) const {
    if (error == cudaSuccess) return succeed();
    return fail(error, "launching " + kernel + " failed: " + cudaGetErrorString(error) +
                           " (CUDA error " + std::to_string(error) + ")");
  }
  template <class Problem>
  int launch(const Kernel<Problem>& kernel, const Problem& problem, cudaStream_t stream) const {
    return launched(kernel.name, kernel.launch(problem, stream));
  }

 private:
  int set_error(cudaError_t error, const std::string& why) const {
    std::snprintf(error_message.data(), error_message.size(), "%s: %s", function_, why.c_str());
    return error;
  }

  const char* function_;
};

/// A pointer argument, with its name in the header.
struct Pointer {
  const char* name;
  const void* address;
  std::size_t alignment;
};

/// The fault of the first invalid pointer, or "".
inline std::string fault_of(std::initializer_list<Pointer> pointers) {
  for (const auto& [name, address, alignment] : pointers) {
    if (address == nullptr) return std::string(name) + " is null";
    if (reinterpret_cast<std::uintptr_t>(address) % alignment != 0) {
      return std::string(name) + " is not a multiple of " + std::to_string(alignment) + " bytes";
    }
  }
  return "";
}

inline std::string fault_of_block_size(const char* name, int size) {
  if (size >= 32 && size <= 4096 && std::has_single_bit(static_cast<unsigned>(size))) return "";
  return std::string(name) + " is " + std::to_string(size) +
         "; give a power of two from 32 to 4096";
}

inline std::string fault_of_count(const char* name, std::int64_t count) {
  if (count >= 0) return "";
  return std::string(name) + " is " + std::to_string(count) + "; give 0 or more";
}

/// The first fault that is not empty.
inline std::string first_of(std::initializer_list<std::string> faults) {
  for (const std::string& fault : faults) {
    if (!fault.empty()) return fault;
  }
  return "";
}

}  // namespace reprolab::dropin
