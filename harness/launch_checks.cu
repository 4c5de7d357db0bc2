#include "harness/launch_checks.hpp"

#include <algorithm>
#include <stdexcept>

#include "profiling/event_timer.hpp"

namespace reprolab {
namespace {

constexpr unsigned threads = 256;
constexpr std::uint64_t max_blocks = 1024;  // per region; threads stride over longer ones
constexpr std::size_t max_regions = 65535;  // limit of a grid's y dimension

/// Depends on the word and its place, so that swapped words are detected.
__device__ unsigned long long mixed(std::uint32_t word, std::uint64_t place) {
  unsigned long long x = (place + 1) * 0x9e3779b97f4a7c15ull ^ word;
  x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
  return (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
}

__global__ void __launch_bounds__(threads)
    add_checksum(const ProtectedMemory::Region* regions, unsigned long long* sum) {
  const ProtectedMemory::Region region = regions[blockIdx.y];
  const auto begin = reinterpret_cast<std::uintptr_t>(region.data);
  const unsigned before = begin % sizeof(std::uint32_t);  // bytes of the first word to skip
  const auto* words = reinterpret_cast<const std::uint32_t*>(begin - before);
  const std::uint64_t whole = (before + region.bytes) / sizeof(std::uint32_t);
  const unsigned after = (before + region.bytes) % sizeof(std::uint32_t);  // bytes of a last word
  const std::uint64_t count = whole + (after > 0);
  const std::uint64_t step = std::uint64_t{gridDim.x} * threads;
  unsigned long long mine = 0;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * threads + threadIdx.x; i < count; i += step) {
    std::uint32_t word = 0;
    if (i < whole) {
      word = i == 0 ? words[i] >> 8 * before : words[i];
    } else {  // nothing past the region is read
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(words + whole);
      for (unsigned b = i == 0 ? before : 0; b < after; ++b) word = word << 8 | bytes[b];
    }
    mine += mixed(word, i ^ std::uint64_t{blockIdx.y} << 48);
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) mine += __shfl_down_sync(~0u, mine, lanes);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}

}  // namespace

ProtectedMemory::ProtectedMemory(const std::vector<Region>& regions, cudaStream_t stream)
    : stream_(stream),
      count_(static_cast<unsigned>(regions.size())),
      regions_(regions.size() * sizeof(Region)) {
  if (regions.size() > max_regions) throw std::invalid_argument("too many regions to protect");
  if (count_ == 0) return;
  std::uint64_t longest = 0;
  for (const Region& region : regions) longest = std::max(longest, region.bytes);
  blocks_ = static_cast<unsigned>(std::clamp<std::uint64_t>(longest / 8192, 1, max_blocks));
  profiling::check(
      cudaMemcpy(regions_.data(), regions.data(), regions_.bytes(), cudaMemcpyHostToDevice),
      "protecting memory");
  original_ = checksum();
}

std::uint64_t ProtectedMemory::checksum() const {
  if (count_ == 0) return 0;
  std::uint64_t sum = 0;
  profiling::check(cudaMemsetAsync(sum_.data(), 0, sizeof sum, stream_), "a checksum");
  add_checksum<<<dim3(blocks_, count_), threads, 0, stream_>>>(regions_.as<const Region>(),
                                                               sum_.as<unsigned long long>());
  profiling::check(cudaGetLastError(), "a checksum");
  profiling::check(cudaMemcpyAsync(&sum, sum_.data(), sizeof sum, cudaMemcpyDeviceToHost, stream_),
                   "a checksum");
  profiling::check(cudaStreamSynchronize(stream_), "a checksum");
  return sum;
}
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
