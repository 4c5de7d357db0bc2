#include "profiling/cuda_check.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "profiling/basics.hpp"

namespace reprolab::profiling {
namespace {

/// Ends the capture even if `enqueue` throws, so that the stream can be used again.
cudaGraph_t capture(cudaStream_t stream, const std::function<void()>& enqueue) {
  // Only this thread: NVML and CUPTI may call CUDA in others.
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning a capture");
  cudaGraph_t graph = nullptr;
  try {
    enqueue();
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();  // otherwise the next check would report it
    throw;
  }
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  if (ended != cudaSuccess) cudaGetLastError();
  check(ended, "capturing launches");
  return graph;
}

}  // namespace

std::string_view cuda_error_hint(cudaError_t error) {
  switch (error) {
    case cudaErrorInsufficientDriver:
      return "Install an NVIDIA driver at least as new as this build's CUDA toolkit; `nvidia-smi` "
             "shows the one in use.";
    case cudaErrorNoDevice:
      return "No NVIDIA GPU is visible: look at `nvidia-smi` and CUDA_VISIBLE_DEVICES.";
    case cudaErrorMemoryAllocation:
      return "Free device memory or choose a smaller problem.";
    case cudaErrorNoKernelImageForDevice:
      return "Rebuild with -DCMAKE_CUDA_ARCHITECTURES=native for this GPU.";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
      return "A kernel failed, here or earlier: run the same command under compute-sanitizer with "
             "--instrument=none.";
    default:
      return "An earlier asynchronous error may surface here: CUDA_LAUNCH_BLOCKING=1 shows the "
             "call that caused it.";
  }
}

void check(cudaError_t error, std::string_view what, const std::source_location& where) {
  if (error == cudaSuccess) return;
  const std::string message = fmt::format(
      "{}: {}, {} ({}:{}). {}", what, cudaGetErrorName(error), cudaGetErrorString(error),
      std::filesystem::path(where.file_name()).filename().string(), where.line(),
      cuda_error_hint(error));
  if (error != cudaErrorMemoryAllocation) throw CudaError(error, message);
  cudaGetLastError();  // not sticky, but the next launch check would report it
  throw NotMeasured(message);
}

DeviceBuffer::DeviceBuffer(std::uint64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const cudaError_t error = cudaMalloc(&data_, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // not sticky, but the next launch check would report it
    std::size_t free_bytes = 0, total_bytes = 0;
    check(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for the free device memory");
    throw NotMeasured(fmt::format(
        "device memory: {:.2f} GiB asked for, {:.2f} GiB of {:.2f} GiB free. Choose a smaller "
        "problem, or end what else runs on this GPU (`nvidia-smi`).",
        gib(bytes), gib(free_bytes), gib(total_bytes)));
  }
  check(error, "allocating device memory");
}

// Destructors do not report errors: earlier failures have already been reported.
DeviceBuffer::~DeviceBuffer() { cudaFree(data_); }

Stream::Stream(unsigned flags) {
  check(cudaStreamCreateWithFlags(&stream_, flags), "creating a stream");
}
Stream::~Stream() { cudaStreamDestroy(stream_); }
void Stream::synchronize() const { check(cudaStreamSynchronize(stream_), "waiting for a stream"); }

Event::Event() { check(cudaEventCreate(&event_), "creating an event"); }
Event::~Event() { cudaEventDestroy(event_); }
void Event::record(cudaStream_t stream) {
  check(cudaEventRecord(event_, stream), "recording an event");
}

double elapsed_us(const Event& start, const Event& end) {
  float ms = 0;
  check(cudaEventElapsedTime(&ms, start.get(), end.get()), "reading the time between two events");
  return 1e3 * static_cast<double>(ms);
}

Graph::Graph(cudaStream_t stream, const std::function<void()>& enqueue) {
  cudaGraph_t graph = capture(stream, enqueue);
  const cudaError_t made = cudaGraphInstantiate(&executable_, graph, 0);
  cudaGraphDestroy(graph);
  if (made != cudaSuccess) cudaGetLastError();
  check(made, "making a graph executable");
}

Graph::~Graph() { cudaGraphExecDestroy(executable_); }

void Graph::launch(cudaStream_t stream) const {
  check(cudaGraphLaunch(executable_, stream), "launching a graph");
}

}  // namespace reprolab::profiling
