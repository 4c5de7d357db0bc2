#include "harness/repeat_check.hpp"

#include <algorithm>

namespace reprolab {

void RepeatCheck::choose(int launches) {
  chosen_ = static_cast<int>(random_() % static_cast<unsigned>(launches));
  place_ = (std::uint64_t{random_()} << 32) | random_();
  buffer_set_ = -1;
}

void RepeatCheck::around(int launch, int buffer_set, void* output, std::uint64_t bytes,
                         cudaStream_t stream, const std::function<void()>& enqueue) {
  if (launch != chosen_) return enqueue();
  buffer_set_ = buffer_set;
  bytes_ = std::min(bytes, max_bytes);
  const std::uint64_t step = bytes % 4 == 0 ? 4 : 2;  // whole elements, of 2 or 4 bytes
  offset_ = place_ % ((bytes - bytes_) / step + 1) * step;
  auto* const place = static_cast<std::byte*>(output) + offset_;
  profiling::check(cudaMemsetAsync(place, poison_byte, bytes_, stream), "poisoning a few bytes");
  enqueue();
  profiling::check(cudaMemcpyAsync(saved_.data(), place, bytes_, cudaMemcpyDeviceToDevice, stream),
                   "saving a few bytes");
}

bool RepeatCheck::written_again(ExpectedOutput expected, int element_bytes,
                                const DeviceComparison& comparison) const {
  const auto at_place = [this](const void* array) {
    return static_cast<const std::byte*>(array) + offset_;
  };
  return comparison
      .compare({at_place(expected.low), at_place(expected.high)}, saved_.data(),
               static_cast<std::int64_t>(bytes_) / element_bytes, element_bytes)
      .equal();
}

}  // namespace reprolab
