// A few numbers in device memory, for a library that reads them there although a problem has them
// on the host: users of the library copy them once, with the checkpoint.
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

/// Sets `copy` to device memory that holds `numbers`, for as long as the process lives. Only the
/// first call with these numbers allocates and waits for the copy, so a timed launch does neither.
/// Returns cudaErrorStreamCaptureUnsupported if a capture would have to allocate: launch once
/// outside of it.
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
  cudaStreamCaptureStatus capture{};
  if (const auto error = cudaStreamIsCapturing(stream, &capture); error != cudaSuccess)
    return error;
  if (capture != cudaStreamCaptureStatusNone) return cudaErrorStreamCaptureUnsupported;
  void* memory = nullptr;
  cudaStream_t own = nullptr;  // a stream that waits for no other
  auto error = cudaMalloc(&memory, numbers.size_bytes());
  if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
  if (error != cudaSuccess) return error;
  error =
      cudaMemcpyAsync(memory, numbers.data(), numbers.size_bytes(), cudaMemcpyHostToDevice, own);
  if (error == cudaSuccess) error = cudaStreamSynchronize(own);
  cudaStreamDestroy(own);
  if (error != cudaSuccess) return error;
  copy = copies[{device, bits}] = static_cast<float*>(memory);
  return cudaSuccess;
}

}  // namespace reprolab
