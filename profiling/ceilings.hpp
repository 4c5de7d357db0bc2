// Ceilings: the maximum speed of this GPU's memory, measured in every run for comparison with the
// kernels. Each function enqueues one operation on `stream`; device pointers are 16-byte aligned,
// sizes are any number of bytes (zero: nothing happens). Throws std::invalid_argument for a
// misaligned pointer and std::runtime_error if a launch fails.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace reprolab::profiling::ceilings {

/// The 32-bit word that write_only stores at byte offset 4 * `index`. It is never constant over a
/// cache line, so that neither compression nor a constant-data path helps.
__host__ __device__ constexpr std::uint32_t pattern_word(std::uint64_t index) {
  return static_cast<std::uint32_t>(index) * 0x9e3779b1u + 0x7f4a7c15u;
}

/// The bytes that one launch moves. Pointers are multiples of 16.
struct Traffic {
  const std::uint8_t* from = nullptr;
  std::uint64_t read_bytes = 0;
  std::uint8_t* to = nullptr;
  std::uint64_t write_bytes = 0;
  /// For tests: becomes XORed with all words that are read.
  std::uint32_t* checksum = nullptr;
  /// The bits of the loaded data that are used: none in a measurement, which the compiler cannot
  /// prove, so everything is loaded and nothing depends on it.
  std::uint32_t mask = checksum == nullptr ? 0 : ~0u;
};

/// cudaMemcpyAsync, device to device. Moves 2 x `bytes` over the memory bus.
void copy(void* to, const void* from, std::uint64_t bytes, cudaStream_t stream);

/// The same copy by a kernel, in the fastest known form.
void copy_kernel(void* to, const void* from, std::uint64_t bytes, cudaStream_t stream);

/// Stores the pattern, reads nothing. Bound by memory writes.
void write_only(void* to, std::uint64_t bytes, cudaStream_t stream);

/// Loads every byte, writes nothing. Bound by memory reads. If `checksum` (one word of device
/// memory, for tests) is given, the XOR of all loaded words is XORed into it.
void read_only(const void* from, std::uint64_t bytes, cudaStream_t stream,
               std::uint32_t* checksum = nullptr);

/// "Same bytes, nothing computed": reads `read_bytes` and writes the pattern to `write_bytes` in
/// one kernel, evenly mixed, by the fastest form that is known. Bound by memory traffic alone. If
/// `checksum` is given, it becomes that of read_only, and the written data depends on the read
/// data.
void same_bytes(const void* from, std::uint64_t read_bytes, void* to, std::uint64_t write_bytes,
                cudaStream_t stream, std::uint32_t* checksum = nullptr);

}  // namespace reprolab::profiling::ceilings
