// Kernels that would compute the right weights, but break one rule for launches each. For test
// programs that measure them together with sound ones; the "sly" ones break a rule that not every
// program or instrument can detect. Plain scales and fp16 only.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <map>
#include <thread>

#include "tests/kernels/nf4/right_launch.cuh"

namespace reprolab::nf4 {
namespace {

cudaStream_t own_stream() {
  static const cudaStream_t stream = [] {
    cudaStream_t made = nullptr;
    cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
    return made;
  }();
  return stream;
}

cudaError_t launch_on_own_stream(const Problem& problem, cudaStream_t) {
  return launch_right(problem, own_stream());
}

/// Its own stream waits for earlier work, but no later work waits for this stream.
void follow(cudaStream_t stream) {
  static const cudaEvent_t event = [] {
    cudaEvent_t made = nullptr;
    cudaEventCreateWithFlags(&made, cudaEventDisableTiming);
    return made;
  }();
  cudaEventRecord(event, stream);
  cudaStreamWaitEvent(own_stream(), event);
}

cudaError_t launch_unjoined(const Problem& problem, cudaStream_t stream) {
  follow(stream);
  return launch_right(problem, own_stream());
}

/// Keeps the GPU busy for a while; launch_with_afterthought() starts it after a right launch.
__global__ void work_for(long long cycles) {
  const long long end = clock64() + cycles;
  while (clock64() < end) {
  }
}

cudaError_t launch_with_afterthought(const Problem& problem, cudaStream_t stream) {
  const cudaError_t status = launch_right(problem, stream);
  follow(stream);
  work_for<<<132, 1024, 0, own_stream()>>>(600'000);  // some 0.3 ms
  return status;
}

cudaError_t launch_and_wait(const Problem& problem, cudaStream_t stream) {
  cudaDeviceSynchronize();
  return launch_right(problem, stream);
}

/// From a separate thread, like a library with worker threads.
cudaError_t launch_in_thread(const Problem& problem, cudaStream_t stream) {
  cudaError_t status = cudaSuccess;
  std::thread([&] { status = launch_right(problem, stream); }).join();
  return status;
}

/// A part of the work in the calling thread, the rest in another.
cudaError_t launch_half_in_thread(const Problem& problem, cudaStream_t stream) {
  const cudaError_t status = launch_in_thread(problem, stream);
  return status == cudaSuccess ? launch_right(problem, stream) : status;
}

/// Copies its result from the first launch with this input.
cudaError_t launch_remembered(const Problem& problem, cudaStream_t stream) {
  static std::map<const void*, void*> remembered;
  const std::size_t bytes = 2 * static_cast<std::size_t>(problem.n);
  const auto [known, is_new] = remembered.try_emplace(problem.codes, nullptr);
  if (!is_new) {
    return cudaMemcpyAsync(problem.output, known->second, bytes, cudaMemcpyDeviceToDevice, stream);
  }
  cudaMallocAsync(&known->second, bytes, stream);
  launch_right(problem, stream);
  return cudaMemcpyAsync(known->second, problem.output, bytes, cudaMemcpyDeviceToDevice, stream);
}

/// Ends the program that started the worker which launches it, on all but the smallest problems.
cudaError_t launch_and_kill_parent(const Problem& problem, cudaStream_t stream) {
  if (problem.n > 64 * 64) kill(getppid(), SIGKILL);
  return launch_right(problem, stream);
}

/// Keeps almost all memory of the device for itself.
cudaError_t launch_hogging(const Problem& problem, cudaStream_t stream) {
  static void* const kept = [] {
    std::size_t free_bytes = 0, all_bytes = 0;
    cudaMemGetInfo(&free_bytes, &all_bytes);
    void* made = nullptr;
    cudaMalloc(&made, free_bytes - (std::size_t{1} << 30));
    return made;
  }();
  return kept == nullptr ? cudaErrorMemoryAllocation : launch_right(problem, stream);
}

__global__ void write_nowhere(int* nowhere) { *nowhere = 1; }
__global__ void spin(volatile int* forever) {
  while (*forever == 0) {
  }
}

cudaError_t launch_illegal_address(const Problem&, cudaStream_t stream) {
  write_nowhere<<<1, 1, 0, stream>>>(reinterpret_cast<int*>(0x10));
  return cudaGetLastError();
}

cudaError_t launch_forever(const Problem&, cudaStream_t stream) {
  static int* const forever = [] {
    int* made = nullptr;
    cudaMalloc(reinterpret_cast<void**>(&made), sizeof(int));
    cudaMemset(made, 0, sizeof(int));
    return made;
  }();
  spin<<<1, 1, 0, stream>>>(forever);
  return cudaGetLastError();
}

cudaError_t launch_exit(const Problem&, cudaStream_t) { std::exit(3); }
cudaError_t launch_crash(const Problem&, cudaStream_t) {
  std::raise(SIGSEGV);
  return cudaSuccess;
}

cudaError_t launch_on_first_input(const Problem& problem, cudaStream_t stream) {
  static const Problem first = problem;
  Problem mixed = problem;
  if (mixed.n == first.n) {
    mixed.codes = first.codes;
    mixed.absmax = first.absmax;
  }
  return launch_right(mixed, stream);
}

cudaError_t launch_into_first_output(const Problem& problem, cudaStream_t stream) {
  static const Problem first = problem;
  Problem mixed = problem;
  if (mixed.n == first.n) mixed.output = first.output;
  return launch_right(mixed, stream);
}

/// Enough launches for verification and for some of the samples.
constexpr int right_launches = 300;

template <cudaError_t then(const Problem&, cudaStream_t)>
cudaError_t launch_right_at_first(const Problem& problem, cudaStream_t stream) {
  static int launches = 0;
  return ++launches <= right_launches ? launch_right(problem, stream) : then(problem, stream);
}

cudaError_t launch_wrong(const Problem& problem, cudaStream_t stream) {
  const cudaError_t status = launch_right(problem, stream);
  cudaMemsetAsync(problem.output, 0x11, 2, stream);
  return status;
}

/// Overwrites the scale of the first block.
cudaError_t launch_and_scribble(const Problem& problem, cudaStream_t stream) {
  const cudaError_t status = launch_right(problem, stream);
  cudaMemsetAsync(const_cast<float*>(problem.absmax), 0, 4, stream);
  return status;
}

Support plain_fp16_only(const Problem& problem) {
  if (problem.output_type != OutputType::fp16 || problem.is_nested()) {
    return Support::no("a test's kernel: plain scales and fp16 only");
  }
  return Support::yes();
}

const RegisterAll<Problem> kernels(
    {.source_file = "tests/kernels/nf4/hostile_kernels.cu", .supports = plain_fp16_only},
    {{"hostile_afterthought", launch_with_afterthought},
     {"hostile_crash", launch_crash},
     {"hostile_exit", launch_exit},
     {"hostile_faults_later", launch_right_at_first<launch_illegal_address>},
     {"hostile_first_input", launch_on_first_input},
     {"hostile_first_output", launch_into_first_output},
     {"hostile_illegal_address", launch_illegal_address},
     {"hostile_never_ends", launch_forever},
     {"hostile_own_stream", launch_on_own_stream},
     {"hostile_own_stream_later", launch_right_at_first<launch_on_own_stream>},
     {"hostile_scribbles", launch_and_scribble},
     {"hostile_unjoined", launch_unjoined},
     {"hostile_waits", launch_and_wait},
     {"hostile_waits_later", launch_right_at_first<launch_and_wait>},
     {"hostile_writes_past_end", launch_and_write_past_end},
     {"hostile_wrong_later", launch_right_at_first<launch_wrong>},
     {"sly_half_in_thread", launch_half_in_thread},
     {"sly_hogs", launch_hogging},
     {"sly_in_thread", launch_in_thread},
     {"sly_kills_parent", launch_and_kill_parent},
     {"sly_remembers", launch_remembered}});

}  // namespace
}  // namespace reprolab::nf4
