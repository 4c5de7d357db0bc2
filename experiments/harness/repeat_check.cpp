#include "experiments/harness/repeat_check.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "experiments/harness/device_compare.hpp"

namespace reprolab {

void RepeatCheck::choose(int launches) {
  chosen_ = static_cast<int>(random_() % static_cast<unsigned>(launches));
  place_ = (std::uint64_t{random_()} << 32) | random_();
  slot_ = -1;
}

void RepeatCheck::around(int launch, int slot, void* output, std::uint64_t bytes,
                         cudaStream_t stream, const std::function<void()>& enqueue) {
  if (launch != chosen_) return enqueue();
  slot_ = slot;
  bytes_ = std::min(bytes, most_bytes);
  offset_ = place_ % (bytes - bytes_ + 1);
  auto* const place = static_cast<std::byte*>(output) + offset_;
  profiling::check(cudaMemsetAsync(place, poison_byte, bytes_, stream), "poisoning a few bytes");
  enqueue();
  profiling::check(cudaMemcpyAsync(saved_.data(), place, bytes_, cudaMemcpyDeviceToDevice, stream),
                   "saving a few bytes");
}

bool RepeatCheck::written_again(const void* expected) const {
  std::array<std::byte, most_bytes> wanted{}, actual{};
  profiling::check(cudaMemcpy(wanted.data(), static_cast<const std::byte*>(expected) + offset_,
                              bytes_, cudaMemcpyDeviceToHost),
                   "reading a few bytes");
  profiling::check(cudaMemcpy(actual.data(), saved_.data(), bytes_, cudaMemcpyDeviceToHost),
                   "reading a few bytes");
  return wanted == actual;
}

}  // namespace reprolab
