#include "harness/device_checks.hpp"

#include <algorithm>
#include <stdexcept>

#include "profiling/event_timer.hpp"

namespace reprolab {
namespace {

constexpr std::int64_t blocks_to_fill = 2048;  // any GPU
constexpr std::int64_t max_spots = 16384;      // a few microseconds, even on a small GPU
constexpr std::int64_t proof_blocks = 3;       // so that a short array takes several strides
constexpr int threads = 256;

constexpr int group_bytes = 16;  // one load of a thread, if both arrays are aligned to it

/// Compares elements [begin, end) one by one; without `low`, every bit must be set (poison).
template <class Bits>
__device__ void compare_elements(const Bits* low, const Bits* high, const Bits* actual,
                                 std::int64_t begin, std::int64_t end,
                                 FoundMismatches& mismatches) {
  constexpr auto poison = static_cast<Bits>(~Bits{0});
  for (std::int64_t i = begin; i < end; ++i) {
    const Bits from = low == nullptr ? poison : low[i], to = low == nullptr ? poison : high[i];
    if (reference::is_within(from, to, actual[i])) continue;
    ++mismatches.count;
    mismatches.first = min(mismatches.first, static_cast<unsigned long long>(i));
    mismatches.max_ulps =
        max(mismatches.max_ulps, reference::distance_outside(from, to, actual[i]));
  }
}

/// A grid-stride loop over every `stride`-th group of 16 bytes, counted from the last one; equal
/// groups are not compared element by element.
template <class Bits>
__global__ void __launch_bounds__(threads)
    count_mismatches(const Bits* low, const Bits* high, const Bits* actual, std::int64_t elements,
                     std::int64_t stride, bool aligned, FoundMismatches* all) {
  constexpr std::int64_t per_group = group_bytes / sizeof(Bits);
  const std::int64_t groups = (elements + per_group - 1) / per_group;
  const std::int64_t step = stride * gridDim.x * threads;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  FoundMismatches mine;
  for (std::int64_t group = (groups - 1) % stride + stride * thread; group < groups;
       group += step) {
    const std::int64_t begin = group * per_group;
    const std::int64_t end = min(begin + per_group, elements);
    if (aligned && end == begin + per_group) {
      const uint4 b = reinterpret_cast<const uint4*>(actual)[group];
      const uint4 a = low == nullptr ? make_uint4(~0u, ~0u, ~0u, ~0u)
                                     : reinterpret_cast<const uint4*>(low)[group];
      if (((a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w)) == 0) continue;
    }
    compare_elements(low, high, actual, begin, end, mine);
  }
  if (mine.count == 0) return;
  atomicAdd(&all->count, mine.count);
  atomicMin(&all->first, mine.first);
  atomicMax(&all->max_ulps, mine.max_ulps);
}

bool is_aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % group_bytes == 0;
}

}  // namespace

DeviceComparison::DeviceComparison(cudaStream_t stream)
    : stream_(stream), max_blocks_(proof_blocks) {
  reset();
  self_test<std::uint16_t>(0x7fff, 0x8000);
  self_test<std::uint32_t>(0x7fffffff, 0x80000000);
  max_blocks_ = blocks_to_fill;
}

void DeviceComparison::reset() const {
  profiling::check(cudaMemcpyAsync(found_.data(), nothing_.data(), sizeof(FoundMismatches),
                                   cudaMemcpyHostToDevice, stream_),
                   "starting a comparison");
}

void DeviceComparison::enqueue_spot_check(ExpectedOutput expected, const void* actual,
                                          std::int64_t elements, int element_bytes) const {
  const std::int64_t groups = elements * element_bytes / group_bytes;
  enqueue(expected, actual, elements, element_bytes,
          std::max<std::int64_t>(1, (groups + max_spots - 1) / max_spots));
}

void DeviceComparison::enqueue(ExpectedOutput expected, const void* actual, std::int64_t elements,
                               int element_bytes, std::int64_t stride) const {
  if (elements == 0) return;
  const std::int64_t per_block = stride * threads * (group_bytes / std::max(1, element_bytes));
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::int64_t>((elements + per_block - 1) / per_block, 1, max_blocks_));
  const bool aligned = is_aligned(expected.low) && is_aligned(actual);
  const auto launch = [&]<class Bits>(Bits) {
    count_mismatches<<<blocks, threads, 0, stream_>>>(
        static_cast<const Bits*>(expected.low), static_cast<const Bits*>(expected.high),
        static_cast<const Bits*>(actual), elements, stride, aligned, found_.as<FoundMismatches>());
  };
  if (element_bytes == 2) {
    launch(std::uint16_t{});
  } else if (element_bytes == 4) {
    launch(std::uint32_t{});
  } else {
    throw std::invalid_argument("compare: elements of 2 or 4 bytes only");
  }
  profiling::check(cudaGetLastError(), "comparing outputs on the GPU");
}

reference::Comparison DeviceComparison::collect() const {
  profiling::check(cudaMemcpyAsync(result_.data(), found_.data(), sizeof(FoundMismatches),
                                   cudaMemcpyDeviceToHost, stream_),
                   "reading a comparison");
  reset();
  profiling::check(cudaStreamSynchronize(stream_), "comparing outputs on the GPU");
  const FoundMismatches all = *result_.data();
  return {static_cast<std::int64_t>(all.count),
          all.count == 0 ? -1 : static_cast<std::int64_t>(all.first), all.max_ulps};
}

template <class Bits>
void DeviceComparison::self_test(Bits nan, Bits negative_zero) const {
  // Longer than one grid's stride, so that a second iteration of the loop is also tested.
  constexpr std::int64_t n = proof_blocks * threads * (group_bytes / sizeof(Bits)) + 1001;
  constexpr int bytes = sizeof(Bits);
  const profiling::DeviceBuffer expected(n * bytes), upper(n * bytes), actual(n * bytes);
  const auto upload = [this](const profiling::DeviceBuffer& to, std::span<const Bits> from,
                             std::int64_t at = 0) {
    // Pageable memory of up to 64 KiB is staged before this returns: no wait is needed.
    profiling::check(cudaMemcpyAsync(to.as<Bits>() + at, from.data(), from.size_bytes(),
                                     cudaMemcpyHostToDevice, stream_),
                     "proving the comparison");
  };
  const auto plant = [&](std::int64_t at, Bits element) { upload(actual, {&element, 1}, at); };
  const auto must_find = [&](const std::string& what, ExpectedOutput wanted,
                             std::int64_t mismatches, std::int64_t first, std::uint32_t ulps) {
    const auto result = compare(wanted, actual.data(), n, bytes);
    if (result.mismatches == mismatches && result.first_mismatch == first &&
        result.max_ulps == ulps) {
      return;
    }
    throw std::logic_error("self-test: the device comparison misjudges " + what + ": finds " +
                           std::to_string(result.mismatches) + " mismatches from element " +
                           std::to_string(result.first_mismatch) + " on, up to " +
                           std::to_string(result.max_ulps) + " ULPs away");
  };
  std::vector<Bits> sound(n);
  for (std::int64_t i = 0; i < n; ++i) sound[i] = static_cast<Bits>(i % 0x7c00);
  upload(expected, sound);
  upload(actual, sound);
  must_find("what is equal", expected.data(), 0, -1, 0);
  const auto must_find_fault = [&](const char* fault, std::int64_t at, Bits planted,
                                   std::uint32_t ulps) {
    if (planted == sound[at]) return;
    plant(at, planted);
    must_find(fault + (" at element " + std::to_string(at)), expected.data(), 1, at, ulps);
    plant(at, sound[at]);
  };
  for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
    must_find_fault("a flipped bit", at, sound[at] ^ 1u, 1);
    must_find_fault("a flipped sign", at, sound[at] ^ negative_zero, 2u * sound[at]);
    must_find_fault("a NaN", at, nan, reference::no_distance);
    must_find_fault("an unwritten element", at, static_cast<Bits>(~Bits{0}),
                    reference::no_distance);
  }
  must_find_fault("a -0.0 for a 0.0", 0, negative_zero, 0);
  // From two steps below to two above: both ends are inside the interval, and nothing beyond them.
  upload(expected, std::vector<Bits>(n, 0x00fe));
  upload(upper, std::vector<Bits>(n, 0x0102));
  upload(actual, std::vector<Bits>(n, 0x0100));
  for (const auto& [planted, ulps] : {std::pair{0x00fdu, 1u},
                                      {0x00feu, 0u},
                                      {0x0102u, 0u},
                                      {0x0104u, 2u},
                                      {0xffffffffu, reference::no_distance}}) {
    plant(n - 1, static_cast<Bits>(planted));
    must_find("the ends of an interval", {expected.data(), upper.data()}, ulps > 0,
              ulps > 0 ? n - 1 : -1, ulps);
  }
  upload(expected, sound);
  // The largest distance of many faults counts, in every thread: one is 4 ULPs away, all others are
  // 1.
  for (const std::int64_t farthest : {std::int64_t{0}, n / 2, n - 1}) {
    auto planted = sound;
    for (Bits& element : planted) element ^= 1u;
    planted[farthest] = sound[farthest] + 4u;
    upload(actual, planted);
    must_find("many faults", expected.data(), n, 0, 4);
  }
  profiling::check(cudaMemsetAsync(actual.data(), poison_byte, n * bytes, stream_),
                   "proving the comparison");
  must_find("poison", nullptr, 0, -1, 0);
  plant(n / 2, sound[n / 2]);
  must_find("a write into poison", nullptr, 1, n / 2, reference::no_distance);
}

namespace {

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
  gather<<<1, places, 0, stream_>>>(expected.low, places_, element_bytes, low_.data());
  gather<<<1, places, 0, stream_>>>(expected.high, places_, element_bytes, high_.data());
  check_launch();
  profiling::check(cudaStreamSynchronize(stream_), "checking a repeated launch");
  return comparison.compare({low_.data(), high_.data()}, saved_.data(), places, element_bytes)
      .equal();
}

void deliver_late(std::span<const std::byte> to, const void* from, cudaStream_t stream) {
  copy_late<<<1, 1024, 0, stream>>>(const_cast<std::byte*>(to.data()),
                                    static_cast<const std::byte*>(from), to.size());
  profiling::check(cudaGetLastError(), "delivering an input late");
}

}  // namespace reprolab
