// Error checks for CUDA calls, and owners of device memory, streams, events and graphs.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace reprolab::profiling {

/// Bytes in GiB, for messages.
constexpr double gib(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

/// The remedy for `error`, in one or two sentences.
std::string_view cuda_error_hint(cudaError_t error);

/// The exception that `check` throws.
struct CudaError : std::runtime_error {
  CudaError(cudaError_t error, const std::string& message)
      : std::runtime_error(message), code(error) {}
  cudaError_t code;
};

/// Throws CudaError unless `error` is cudaSuccess, and NotMeasured if memory ran out: a step of the
/// harness asked for it. `what` names the step that failed. The message is one line: "<what>: <name
/// of the error>, <its meaning> (<file>:<line>). <remedy>".
void check(cudaError_t error, std::string_view what,
           const std::source_location& where = std::source_location::current());

/// Device memory: move-only, aligned; a null pointer if it has zero bytes.
class DeviceBuffer {
 public:
  /// In bytes; guaranteed by the CUDA programming guide.
  static constexpr std::size_t alignment = 256;
  /// `bytes`, rounded up to a multiple of it.
  static constexpr std::uint64_t aligned(std::uint64_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  }

  DeviceBuffer() = default;
  /// Throws NotMeasured that says how much was requested and how much is free.
  explicit DeviceBuffer(std::uint64_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  void* data() const { return data_; }
  std::uint64_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// Pinned host memory that the GPU reads and writes at the same address. For a few words only:
/// every access of the GPU crosses the bus.
template <class T>
class MappedArray {
 public:
  /// `count` value-initialized elements.
  explicit MappedArray(std::size_t count) {
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, count * sizeof(T), cudaHostAllocMapped),
          "allocating pinned host memory");
    data_ = static_cast<T*>(memory);
    std::uninitialized_value_construct_n(data_, count);
  }
  ~MappedArray() { cudaFreeHost(data_); }
  MappedArray(const MappedArray&) = delete;
  MappedArray& operator=(const MappedArray&) = delete;

  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
};

class Stream {
 public:
  /// cudaStreamDefault synchronizes with the legacy default stream, on which some peers launch;
  /// cudaStreamNonBlocking synchronizes with no other stream.
  explicit Stream(unsigned flags = cudaStreamDefault);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }
  void synchronize() const;

 private:
  cudaStream_t stream_ = nullptr;
};

/// An event with timing enabled.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  cudaEvent_t get() const { return event_; }
  void record(cudaStream_t stream);

 private:
  cudaEvent_t event_ = nullptr;
};

/// Microseconds from `start` to `end`; both must be recorded and complete. Resolution 0.5 us.
double elapsed_us(const Event& start, const Event& end);

/// Launches captured in a CUDA graph, which the GPU repeats without the host.
class Graph {
 public:
  /// Captures the work that `enqueue` enqueues on `stream`, without running it. Throws CudaError if
  /// it cannot be captured, such as an allocation or a launch on the default stream, and whatever
  /// `enqueue` throws; the stream then works as before. All kernels must have been launched once.
  Graph(cudaStream_t stream, const std::function<void()>& enqueue);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch(cudaStream_t stream) const;

 private:
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace reprolab::profiling
