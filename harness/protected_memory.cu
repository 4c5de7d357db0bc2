#include <algorithm>
#include <stdexcept>

#include "harness/protected_memory.hpp"

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

}  // namespace reprolab
