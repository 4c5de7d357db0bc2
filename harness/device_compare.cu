#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/device_compare.hpp"
#include "reference/compare.hpp"

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

void DeviceComparison::enqueue(ExpectedOutput expected, const void* actual, std::int64_t elements,
                               int element_bytes) const {
  compare_every(1, expected, actual, elements, element_bytes);
}

void DeviceComparison::enqueue_spot_check(ExpectedOutput expected, const void* actual,
                                          std::int64_t elements, int element_bytes) const {
  const std::int64_t groups = elements * element_bytes / group_bytes;
  compare_every(std::max<std::int64_t>(1, (groups + max_spots - 1) / max_spots), expected, actual,
                elements, element_bytes);
}

void DeviceComparison::compare_every(std::int64_t stride, ExpectedOutput expected,
                                     const void* actual, std::int64_t elements,
                                     int element_bytes) const {
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
    profiling::check(cudaMemcpyAsync(to.as<Bits>() + at, from.data(), from.size_bytes(),
                                     cudaMemcpyHostToDevice, stream_),
                     "proving the comparison");
    profiling::check(cudaStreamSynchronize(stream_), "proving the comparison");
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

}  // namespace reprolab
