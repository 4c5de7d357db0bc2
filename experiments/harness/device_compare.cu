#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "experiments/harness/device_compare.hpp"

namespace reprolab {
namespace {

constexpr std::int64_t most_blocks = 2048;  // fill any GPU; longer arrays are walked in strides
constexpr int threads = 256;

/// One thread an element, grid-stride: plain, and still at memory speed.
template <class Bits>
__global__ void __launch_bounds__(threads)
    count_mismatches(const Bits* __restrict__ expected, const Bits* __restrict__ actual,
                     std::int64_t elements, unsigned long long* mismatches,
                     unsigned long long* first) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads;
  unsigned long long found = 0;
  unsigned long long earliest = ~0ull;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x; i < elements;
       i += stride) {
    if (expected[i] != actual[i]) {
      ++found;
      earliest = min(earliest, static_cast<unsigned long long>(i));
    }
  }
  if (found != 0) {
    atomicAdd(mismatches, found);
    atomicMin(first, earliest);
  }
}

}  // namespace

DeviceComparison::DeviceComparison(cudaStream_t stream) : stream_(stream) { prove(); }

reference::Comparison DeviceComparison::compare(const void* expected, const void* actual,
                                                std::int64_t elements, int element_bytes) const {
  const Found nothing{0, ~0ull};
  Found found = nothing;
  profiling::check(
      cudaMemcpyAsync(found_.data(), &nothing, sizeof(Found), cudaMemcpyHostToDevice, stream_),
      "starting a comparison");
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::int64_t>((elements + threads - 1) / threads, 1, most_blocks));
  auto* count = &found_.as<Found>()->mismatches;
  auto* first = &found_.as<Found>()->first;
  if (element_bytes == 2) {
    count_mismatches<<<blocks, threads, 0, stream_>>>(static_cast<const std::uint16_t*>(expected),
                                                      static_cast<const std::uint16_t*>(actual),
                                                      elements, count, first);
  } else if (element_bytes == 4) {
    count_mismatches<<<blocks, threads, 0, stream_>>>(static_cast<const std::uint32_t*>(expected),
                                                      static_cast<const std::uint32_t*>(actual),
                                                      elements, count, first);
  } else {
    throw std::invalid_argument("compare: elements of 2 or 4 bytes only");
  }
  profiling::check(cudaGetLastError(), "comparing outputs on the GPU");
  profiling::check(
      cudaMemcpyAsync(&found, found_.data(), sizeof(Found), cudaMemcpyDeviceToHost, stream_),
      "reading a comparison");
  profiling::check(cudaStreamSynchronize(stream_), "comparing outputs on the GPU");
  return {static_cast<std::int64_t>(found.mismatches),
          found.mismatches == 0 ? -1 : static_cast<std::int64_t>(found.first)};
}

template <class Bits>
void DeviceComparison::prove(const Faults<Bits>& faults) const {
  // Longer than one grid's stride, so that the loop's second turn is tried too.
  constexpr std::int64_t n = most_blocks * threads + 1001;
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
  const auto must_find = [&](const char* fault, std::int64_t at, Bits planted) {
    if (planted == sound[at]) return;
    upload(actual, &planted, bytes, bytes * at);
    const auto found = compare(expected.data(), actual.data(), n, bytes);
    upload(actual, &sound[at], bytes, bytes * at);
    if (found.mismatches != 1 || found.first_mismatch != at) {
      throw std::logic_error(std::string("self-test: the device comparison missed ") + fault +
                             " at element " + std::to_string(at));
    }
  };
  for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
    must_find("a flipped bit", at, sound[at] ^ 1u);
    must_find("a flipped sign", at, sound[at] ^ faults.negative_zero);
    must_find("a NaN", at, faults.nan);
    must_find("an unwritten element", at, static_cast<Bits>(~Bits{0}));
  }
  must_find("a -0.0 for a 0.0", 0, faults.negative_zero);
}

void DeviceComparison::prove() const {
  prove<std::uint16_t>({.nan = 0x7fff, .negative_zero = 0x8000});
  prove<std::uint32_t>({.nan = 0x7fffffff, .negative_zero = 0x80000000});
}

}  // namespace reprolab
