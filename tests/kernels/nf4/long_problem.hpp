// A problem that repeats a tile of weights on the device: quantizing so many on the host would take
// too long.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/kernels/nf4/testing.hpp"
#include "tests/kernels/testing.hpp"

namespace reprolab::nf4 {

/// Device memory with `count` elements: copies of `tile`, the last one cut short.
template <class T>
profiling::DeviceBuffer repeated(const std::vector<T>& tile, std::uint64_t count) {
  const profiling::DeviceBuffer once(tile.size() * sizeof(T));
  profiling::check(cudaMemcpy(once.data(), tile.data(), once.bytes(), cudaMemcpyHostToDevice),
                   "copying a tile");
  profiling::DeviceBuffer all(count * sizeof(T));
  for (std::uint64_t at = 0; at < all.bytes(); at += once.bytes()) {
    profiling::check(cudaMemcpy(all.as<std::byte>() + at, once.data(),
                                std::min(once.bytes(), all.bytes() - at), cudaMemcpyDeviceToDevice),
                     "repeating a tile");
  }
  return all;
}

/// A problem of `n` weights that repeats one tile, and its memory. The output begins `output_at`
/// elements past an aligned address.
struct LongProblem {
  LongProblem(const reference::QuantizedTensor& tile, std::int64_t n, int output_at)
      : blocks(static_cast<std::uint64_t>(reference::block_count(n, tile.block_size))),
        codes(repeated(tile.codes, static_cast<std::uint64_t>(reference::code_bytes(n)))),
        output(2 * static_cast<std::uint64_t>(n + output_at)) {
    view = host_problem(tile, output.as<std::uint16_t>() + output_at);
    view.n = n;
    view.codes = codes.as<std::uint8_t>();
    if (tile.nested) {
      scales = repeated(tile.nested->codes, blocks);
      second_scales = repeated(tile.nested->absmax, (blocks + 255) / 256);
      map = repeated(std::vector(tile.nested->map.begin(), tile.nested->map.end()), 256);
      view.nested.codes = scales.as<std::uint8_t>();
      view.nested.absmax = second_scales.as<float>();
      view.nested.map = map.as<float>();
    } else {
      scales = repeated(tile.absmax, blocks);
      view.absmax = scales.as<float>();
    }
    profiling::check(cudaMemset(output.data(), poison_byte, output.bytes()), "poisoning an output");
  }

  std::uint64_t blocks;
  profiling::DeviceBuffer codes, scales, second_scales, map, output;
  Problem view;
};

}  // namespace reprolab::nf4
