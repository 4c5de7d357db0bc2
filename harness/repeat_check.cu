#include "harness/repeat_check.hpp"
#include "profiling/global_timer.cuh"

namespace reprolab {
namespace {

using Places = RepeatCheck::Places;

constexpr std::uint64_t delay_ns = 200'000;  // longer than a launch takes to begin

__global__ void overwrite(void* output, Places places, int element_bytes) {
  const std::uint64_t element = places.element[threadIdx.x];
  if (element_bytes == 2) {
    static_cast<std::uint16_t*>(output)[element] =
        static_cast<std::uint16_t>(places.bits[threadIdx.x]);
  } else {
    static_cast<std::uint32_t*>(output)[element] = places.bits[threadIdx.x];
  }
}

__global__ void gather(const void* output, Places places, int element_bytes, void* to) {
  const std::uint64_t element = places.element[threadIdx.x];
  if (element_bytes == 2) {
    static_cast<std::uint16_t*>(to)[threadIdx.x] =
        static_cast<const std::uint16_t*>(output)[element];
  } else {
    static_cast<std::uint32_t*>(to)[threadIdx.x] =
        static_cast<const std::uint32_t*>(output)[element];
  }
}

__global__ void __launch_bounds__(1024)
    copy_late(std::byte* to, const std::byte* from, std::uint64_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
  const std::uint64_t begin = profiling::global_timer_ns();
  while (profiling::global_timer_ns() - begin < delay_ns) {
  }
  for (std::uint64_t i = threadIdx.x; i < bytes; i += blockDim.x) to[i] = from[i];
}

void check_launch() { profiling::check(cudaGetLastError(), "checking a repeated launch"); }

}  // namespace

void RepeatCheck::choose(int launches) {
  chosen_ = static_cast<int>(random_() % static_cast<unsigned>(launches));
  for (auto& element : places_.element) element = std::uint64_t{random_()} << 32 | random_();
  for (auto& bits : places_.bits) bits = random_();
  buffer_set_ = -1;
}

void RepeatCheck::around(int launch, int buffer_set, void* output, std::int64_t elements,
                         int element_bytes, cudaStream_t stream,
                         const std::function<void()>& enqueue) {
  if (launch != chosen_) return enqueue();
  buffer_set_ = buffer_set;
  stream_ = stream;
  for (auto& element : places_.element) element %= static_cast<std::uint64_t>(elements);
  overwrite<<<1, places, 0, stream>>>(output, places_, element_bytes);
  check_launch();
  enqueue();
  gather<<<1, places, 0, stream>>>(output, places_, element_bytes, saved_.data());
  check_launch();
}

bool RepeatCheck::written_again(ExpectedOutput expected, int element_bytes,
                                const DeviceComparison& comparison) const {
  profiling::DeviceBuffer low(saved_.bytes()), high(saved_.bytes());
  gather<<<1, places, 0, stream_>>>(expected.low, places_, element_bytes, low.data());
  gather<<<1, places, 0, stream_>>>(expected.high, places_, element_bytes, high.data());
  check_launch();
  profiling::check(cudaStreamSynchronize(stream_), "checking a repeated launch");
  return comparison.compare({low.data(), high.data()}, saved_.data(), places, element_bytes)
      .equal();
}

void deliver_late(std::span<const std::byte> to, const void* from, cudaStream_t stream) {
  copy_late<<<1, 1024, 0, stream>>>(const_cast<std::byte*>(to.data()),
                                    static_cast<const std::byte*>(from), to.size());
  profiling::check(cudaGetLastError(), "delivering an input late");
}

}  // namespace reprolab
