#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/device_compare.hpp"
#include "reference/ulps.hpp"

namespace reprolab {
namespace {

constexpr std::int64_t blocks_to_fill = 2048;  // any GPU
constexpr std::int64_t max_spots = 16384;      // a few microseconds, even on a small GPU
constexpr std::int64_t proof_blocks = 3;       // so that a short array takes several strides
constexpr int threads = 256;

constexpr int group_bytes = 16;  // one load of a thread, if both arrays are aligned to it

struct Mismatches {
  unsigned long long count = 0, first = ~0ull;
  std::uint32_t max_ulps = 0;

  __device__ void add(std::int64_t index, std::uint32_t ulps) {
    ++count;
    first = min(first, static_cast<unsigned long long>(index));
    max_ulps = max(max_ulps, ulps);
  }
};

/// Compares elements [begin, end) one by one; without `low`, every bit must be set (poison).
template <class Bits>
__device__ void compare_elements(const Bits* low, const Bits* high, const Bits* actual,
                                 std::int64_t begin, std::int64_t end, Mismatches& found) {
  constexpr auto poison = static_cast<Bits>(~Bits{0});
  for (std::int64_t i = begin; i < end; ++i) {
    const Bits from = low == nullptr ? poison : low[i], to = low == nullptr ? poison : high[i];
    if (!reference::is_within(from, to, actual[i])) {
      found.add(i, reference::distance_outside(from, to, actual[i]));
    }
  }
}

/// A grid-stride loop over every `stride`-th group of 16 bytes, counted from the last one; equal
/// groups are not compared element by element.
template <class Bits>
__global__ void __launch_bounds__(threads)
    count_mismatches(const Bits* low, const Bits* high, const Bits* actual, std::int64_t elements,
                     std::int64_t stride, bool aligned, unsigned long long* mismatches,
                     unsigned long long* first, std::uint32_t* max_ulps) {
  constexpr std::int64_t per_group = group_bytes / sizeof(Bits);
  const std::int64_t groups = (elements + per_group - 1) / per_group;
  const std::int64_t step = stride * gridDim.x * threads;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  Mismatches found;
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
    compare_elements(low, high, actual, begin, end, found);
  }
  if (found.count != 0) {
    atomicAdd(mismatches, found.count);
    atomicMin(first, found.first);
    atomicMax(max_ulps, found.max_ulps);
  }
}

bool is_aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % group_bytes == 0;
}

}  // namespace

DeviceComparison::DeviceComparison(cudaStream_t stream)
    : stream_(stream), max_blocks_(proof_blocks) {
  reset();
  self_test();
  max_blocks_ = blocks_to_fill;
}

void DeviceComparison::reset() const {
  profiling::check(cudaMemcpyAsync(found_.data(), nothing_.data(), sizeof(Found),
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

template <class Bits>
void DeviceComparison::launch(unsigned blocks, std::int64_t stride, ExpectedOutput expected,
                              const void* actual, std::int64_t elements) const {
  const bool aligned = is_aligned(expected.low) && is_aligned(actual);
  auto* const found = found_.as<Found>();
  count_mismatches<<<blocks, threads, 0, stream_>>>(
      static_cast<const Bits*>(expected.low), static_cast<const Bits*>(expected.high),
      static_cast<const Bits*>(actual), elements, stride, aligned, &found->mismatches,
      &found->first, &found->max_ulps);
}

void DeviceComparison::compare_every(std::int64_t stride, ExpectedOutput expected,
                                     const void* actual, std::int64_t elements,
                                     int element_bytes) const {
  if (elements == 0) return;
  const std::int64_t per_block = stride * threads * (group_bytes / std::max(1, element_bytes));
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::int64_t>((elements + per_block - 1) / per_block, 1, max_blocks_));
  if (element_bytes == 2) {
    launch<std::uint16_t>(blocks, stride, expected, actual, elements);
  } else if (element_bytes == 4) {
    launch<std::uint32_t>(blocks, stride, expected, actual, elements);
  } else {
    throw std::invalid_argument("compare: elements of 2 or 4 bytes only");
  }
  profiling::check(cudaGetLastError(), "comparing outputs on the GPU");
}

reference::Comparison DeviceComparison::collect() const {
  profiling::check(cudaMemcpyAsync(result_.data(), found_.data(), sizeof(Found),
                                   cudaMemcpyDeviceToHost, stream_),
                   "reading a comparison");
  reset();
  profiling::check(cudaStreamSynchronize(stream_), "comparing outputs on the GPU");
  const Found found = *result_.data();
  return {static_cast<std::int64_t>(found.mismatches),
          found.mismatches == 0 ? -1 : static_cast<std::int64_t>(found.first), found.max_ulps};
}

template <class Bits>
void DeviceComparison::self_test(const Faults<Bits>& faults) const {
  // Longer than one grid's stride, so that a second iteration of the loop is tested too.
  constexpr std::int64_t n = proof_blocks * threads * (group_bytes / sizeof(Bits)) + 1001;
  constexpr int bytes = sizeof(Bits);
  std::vector<Bits> sound(n);
  for (std::int64_t i = 0; i < n; ++i) sound[i] = static_cast<Bits>(i % 0x7c00);
  const profiling::DeviceBuffer expected(n * bytes), actual(n * bytes);
  const auto upload = [this](const profiling::DeviceBuffer& to, const void* from, std::size_t size,
                             std::size_t at = 0) {
    profiling::check(
        cudaMemcpyAsync(to.as<std::byte>() + at, from, size, cudaMemcpyHostToDevice, stream_),
        "proving the comparison");
    profiling::check(cudaStreamSynchronize(stream_), "proving the comparison");
  };
  upload(expected, sound.data(), n * bytes);
  upload(actual, sound.data(), n * bytes);
  if (!compare(expected.data(), actual.data(), n, bytes).equal()) {
    throw std::logic_error("self-test: the device comparison sees a mismatch where there is none");
  }
  const auto must_find = [&](const char* fault, std::int64_t at, Bits planted, std::uint32_t ulps) {
    if (planted == sound[at]) return;
    upload(actual, &planted, bytes, bytes * at);
    const auto found = compare(expected.data(), actual.data(), n, bytes);
    upload(actual, &sound[at], bytes, bytes * at);
    if (found.mismatches != 1 || found.first_mismatch != at) {
      throw std::logic_error(std::string("self-test: the device comparison missed ") + fault +
                             " at element " + std::to_string(at));
    }
    if (found.max_ulps != ulps) {
      throw std::logic_error(std::string("self-test: the device comparison finds ") + fault +
                             " at element " + std::to_string(at) + " " +
                             std::to_string(found.max_ulps) + " ULPs away, not " +
                             std::to_string(ulps));
    }
  };
  for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
    must_find("a flipped bit", at, sound[at] ^ 1u, 1);
    must_find("a flipped sign", at, sound[at] ^ faults.negative_zero, 2u * sound[at]);
    must_find("a NaN", at, faults.nan, reference::no_distance);
    must_find("an unwritten element", at, static_cast<Bits>(~Bits{0}), reference::no_distance);
  }
  must_find("a -0.0 for a 0.0", 0, faults.negative_zero, 0);
  // From two steps below to two above: both ends are within, and nothing beyond them.
  const std::vector<Bits> middle(n, 0x0100), low(n, 0x00fe), high(n, 0x0102);
  const profiling::DeviceBuffer upper(n * bytes);
  upload(expected, low.data(), n * bytes);
  upload(upper, high.data(), n * bytes);
  upload(actual, middle.data(), n * bytes);
  for (const unsigned planted : {0x00fdu, 0x00feu, 0x0102u, 0x0104u, 0xffffffffu}) {
    const auto element = static_cast<Bits>(planted);
    upload(actual, &element, bytes, bytes * (n - 1));
    const auto found = compare({expected.data(), upper.data()}, actual.data(), n, bytes);
    const bool within = planted == 0x00fe || planted == 0x0102;
    const std::uint32_t ulps = planted == 0x00fd ? 1 : planted == 0x0104 ? 2 : 0xffffffffu;
    if (found.equal() != within || (!within && found.max_ulps != ulps)) {
      throw std::logic_error("self-test: the device comparison mistakes the ends of an interval");
    }
  }
  upload(expected, sound.data(), n * bytes);
  // The farthest of many faults, in every thread, counts: one is 4 ULPs away, all others are 1.
  std::vector<Bits> changed = sound;
  for (Bits& element : changed) element ^= 1u;
  for (const std::int64_t farthest : {std::int64_t{0}, n / 2, n - 1}) {
    auto planted = changed;
    planted[farthest] = sound[farthest] + 4u;
    upload(actual, planted.data(), n * bytes);
    const auto found = compare(expected.data(), actual.data(), n, bytes);
    if (found.mismatches != n || found.first_mismatch != 0 || found.max_ulps != 4) {
      throw std::logic_error("self-test: the device comparison misses some of many faults");
    }
  }
  profiling::check(cudaMemsetAsync(actual.data(), poison_byte, n * bytes, stream_),
                   "proving the comparison");
  if (!compare(nullptr, actual.data(), n, bytes).equal()) {
    throw std::logic_error("self-test: the device comparison does not recognise poison");
  }
  upload(actual, &sound[n / 2], bytes, bytes * (n / 2));
  if (const auto found = compare(nullptr, actual.data(), n, bytes);
      found.mismatches != 1 || found.first_mismatch != n / 2) {
    throw std::logic_error("self-test: the device comparison missed a write into poison");
  }
}

void DeviceComparison::self_test() {
  self_test<std::uint16_t>({.nan = 0x7fff, .negative_zero = 0x8000});
  self_test<std::uint32_t>({.nan = 0x7fffffff, .negative_zero = 0x80000000});
}

}  // namespace reprolab
