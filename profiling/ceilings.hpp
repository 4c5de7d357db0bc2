// What this GPU's memory can do at best, for kernels to be compared with: the ceilings that every
// run measures beside them. Each function enqueues one operation on `stream`; device pointers are
// 16-byte aligned, sizes are any number of bytes (zero: nothing happens). Throws
// std::invalid_argument for a misaligned pointer and std::runtime_error when a launch fails.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace reprolab::profiling::ceilings {

/// The 32-bit word that write_only stores at byte offset 4 * `index`: never constant over a line,
/// so that no compression and no constant-data path helps.
__host__ __device__ constexpr std::uint32_t pattern_word(std::uint64_t index) {
  return static_cast<std::uint32_t>(index) * 0x9e3779b1u + 0x7f4a7c15u;
}

/// cudaMemcpyAsync, device to device. Moves 2 x `bytes` over the memory bus.
void copy(void* to, const void* from, std::uint64_t bytes, cudaStream_t stream);

/// The same by a kernel of the plainest sort: each thread moves 16 bytes, 128 threads a block.
void copy_kernel(void* to, const void* from, std::uint64_t bytes, cudaStream_t stream);

/// Stores the pattern, reads nothing. Bound by memory writes.
void write_only(void* to, std::uint64_t bytes, cudaStream_t stream);

/// Loads every byte, writes nothing. Bound by memory reads. With `checksum` (one word of device
/// memory, for tests), the exclusive-or of all loaded words is xor-ed into it.
void read_only(const void* from, std::uint64_t bytes, cudaStream_t stream,
               std::uint32_t* checksum = nullptr);

/// "Same bytes, nothing computed": reads `read_bytes` and writes `write_bytes` in one kernel,
/// evenly mixed. Each word written is the pattern, xor-ed with words read by the same thread; over
/// zeros it is the pattern itself. Bound by memory traffic alone.
void same_bytes(const void* from, std::uint64_t read_bytes, void* to, std::uint64_t write_bytes,
                cudaStream_t stream);

}  // namespace reprolab::profiling::ceilings
