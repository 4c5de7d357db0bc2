// What the functions of the library share: checks of arguments, and the message of an error.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string>

#include "kernels/registry.hpp"

namespace reprolab::dropin {

/// Of this thread's latest call; empty if nothing was wrong.
inline thread_local std::array<char, 1024> error_message{};

inline int succeed() {
  error_message[0] = '\0';
  return cudaSuccess;
}

/// A call of a function, whose name begins its error messages.
class Call {
 public:
  explicit Call(const char* function) : function_(function) {}

  /// For what CUDA says.
  int fail(cudaError_t error, const std::string& why) const {
    cudaGetLastError();  // or a later call, of whoever asks, would find it again
    return tell(error, why);
  }
  /// For what is wrong whatever the machine is: CUDA is not asked.
  int refuse(const std::string& why) const { return tell(cudaErrorInvalidValue, why); }

  /// What a launch of the kernel returned, as the call's result.
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
  int tell(cudaError_t error, const std::string& why) const {
    std::snprintf(error_message.data(), error_message.size(), "%s: %s", function_, why.c_str());
    return error;
  }

  const char* function_;
};

/// A parameter, by its name in the header.
struct Pointer {
  const char* name;
  const void* address;
  std::size_t alignment;
};

/// What is wrong with the first of them that something is wrong with, or "".
inline std::string fault_of(std::initializer_list<Pointer> pointers) {
  for (const auto& [name, address, alignment] : pointers) {
    if (address == nullptr) return std::string(name) + " is null";
    if (reinterpret_cast<std::uintptr_t>(address) % alignment != 0) {
      return std::string(name) + " is no multiple of " + std::to_string(alignment) + " bytes";
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

/// The first that is not empty.
inline std::string first_of(std::initializer_list<std::string> faults) {
  for (const std::string& fault : faults) {
    if (!fault.empty()) return fault;
  }
  return "";
}

}  // namespace reprolab::dropin
