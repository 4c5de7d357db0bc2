// Device memory that lives as long as the process, for libraries that need more of it than a
// problem has. Only the first launch that needs it allocates or waits: a kernel is verified on a
// problem before it is timed on it, so a timed launch does neither. In a capture, which would have
// to allocate, both functions return cudaErrorStreamCaptureUnsupported: launch once outside of it.
#pragma once

#include <cuda_runtime_api.h>

#include <bit>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace reprolab {

inline cudaError_t keep_memory(std::uint64_t bytes, cudaStream_t stream, float*& memory) {
  cudaStreamCaptureStatus capture{};
  if (const auto error = cudaStreamIsCapturing(stream, &capture); error != cudaSuccess) {
    return error;
  }
  if (capture != cudaStreamCaptureStatusNone) return cudaErrorStreamCaptureUnsupported;
  void* allocated = nullptr;
  const auto error = cudaMalloc(&allocated, bytes);
  memory = static_cast<float*>(allocated);
  return error;
}

/// Sets `copy` to device memory that holds `numbers`, for a library that reads them there although
/// a problem has them on the host: users of the library copy them once, with the checkpoint.
inline cudaError_t device_copy(std::span<const float> numbers, cudaStream_t stream,
                               const float*& copy) {
  static std::mutex one_at_a_time;
  static std::map<std::pair<int, std::vector<std::uint32_t>>, float*> copies;  // by device and bits
  int device = 0;
  if (const auto error = cudaGetDevice(&device); error != cudaSuccess) return error;
  std::vector<std::uint32_t> bits;
  for (const float number : numbers) bits.push_back(std::bit_cast<std::uint32_t>(number));
  const std::lock_guard lock(one_at_a_time);
  if (const auto known = copies.find({device, bits}); known != copies.end()) {
    copy = known->second;
    return cudaSuccess;
  }
  float* memory = nullptr;
  cudaStream_t own = nullptr;  // a stream that waits for no other
  auto error = keep_memory(numbers.size_bytes(), stream, memory);
  if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
  if (error != cudaSuccess) return error;
  error =
      cudaMemcpyAsync(memory, numbers.data(), numbers.size_bytes(), cudaMemcpyHostToDevice, own);
  if (error == cudaSuccess) error = cudaStreamSynchronize(own);
  cudaStreamDestroy(own);
  if (error == cudaSuccess) copy = copies[{device, bits}] = memory;
  return error;
}

/// Sets `numbers` to memory for `count` of them, which launches on `stream` share: each stream has
/// its own, because launches on two of them may run at once. Memory that has become too small is
/// kept, because a captured graph may still write to it; sizes are powers of two, so this at most
/// doubles the memory.
inline cudaError_t scratch_memory(std::int64_t count, cudaStream_t stream, float*& numbers) {
  struct Buffer {
    float* memory = nullptr;
    std::uint64_t count = 0;
  };
  static std::mutex one_at_a_time;
  static std::map<std::pair<int, cudaStream_t>, Buffer> buffers;  // by device and stream
  int device = 0;
  if (const auto error = cudaGetDevice(&device); error != cudaSuccess) return error;
  const std::lock_guard lock(one_at_a_time);
  Buffer& buffer = buffers[{device, stream}];
  if (const auto wanted = static_cast<std::uint64_t>(count); buffer.count < wanted) {
    Buffer larger{.count = std::bit_ceil(wanted)};
    if (const auto error = keep_memory(larger.count * sizeof(float), stream, larger.memory);
        error != cudaSuccess) {
      return error;
    }
    buffer = larger;
  }
  numbers = buffer.memory;
  return cudaSuccess;
}

}  // namespace reprolab
