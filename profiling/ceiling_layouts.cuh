// The memory that a block of a ceiling's kernel writes: consecutive bytes, or a tile of short rows.
#pragma once

#include <cstdint>

namespace reprolab::profiling::ceilings {

/// 16 bytes, the widest access of one thread. The last element of a buffer may be shorter.
inline constexpr unsigned element_bytes = 16;

/// Blocks are lines: consecutive bytes.
struct Line {
  template <unsigned BlockBytes>
  __device__ static bool has_block(std::uint64_t begin, std::uint64_t bytes) {
    return begin + BlockBytes <= bytes;
  }
  template <unsigned>
  __device__ static std::uint64_t place(std::uint64_t begin, unsigned offset) {
    return begin + offset;
  }
  template <unsigned Bytes>
  static constexpr std::uint64_t apart = Bytes;
};

/// Blocks are tiles: rows of `Width` bytes, `Stride` bytes apart. Tiles side by side make a panel;
/// after the last whole panel, blocks are lines. On an H200, tiles are faster for most sizes of 2
/// to 20 MiB, about as much as its multiprocessors have in flight.
template <unsigned Width, unsigned Stride>
struct Tile {
  static_assert(Width % element_bytes == 0 && Stride % Width == 0);
  template <unsigned BlockBytes>
  static constexpr std::uint64_t panel_bytes = std::uint64_t{BlockBytes / Width} * Stride;

  /// Whether the block whose line would start at `begin` is a tile of a buffer of `bytes`.
  template <unsigned BlockBytes>
  __device__ static bool has_block(std::uint64_t begin, std::uint64_t bytes) {
    constexpr std::uint64_t panel = panel_bytes<BlockBytes>;
    return begin / panel * panel + panel <= bytes;
  }
  /// The place in the buffer of the byte at `offset` of that block.
  template <unsigned BlockBytes>
  __device__ static std::uint64_t place(std::uint64_t begin, unsigned offset) {
    static_assert(BlockBytes % Width == 0);
    constexpr std::uint64_t panel = panel_bytes<BlockBytes>;
    const auto column = static_cast<unsigned>(begin % panel / BlockBytes);
    return begin / panel * panel + offset / Width * Stride + column * Width + offset % Width;
  }
  /// The distance in the buffer of elements that are `Bytes`, a number of whole rows, apart in a
  /// block.
  template <unsigned Bytes>
  requires(Bytes % Width ==
           0) static constexpr std::uint64_t apart = std::uint64_t{Bytes / Width} * Stride;
};

/// Calls `use(place)` if all of the block is in a buffer of `bytes`: `place(i)` is where the
/// thread's element `i` begins. Otherwise returns false.
template <class Layout, unsigned Threads, unsigned Elements, class Use>
__device__ bool with_places(std::uint64_t bytes, Use use) {
  constexpr unsigned row = Threads * element_bytes, block = row * Elements;
  const std::uint64_t begin = std::uint64_t{blockIdx.x} * block;
  const unsigned offset = threadIdx.x * element_bytes;
  const auto use_layout = [&]<class Blocks>(Blocks) {
    if (!Blocks::template has_block<block>(begin, bytes)) return false;
    const std::uint64_t first = Blocks::template place<block>(begin, offset);
    use([=](unsigned i) { return first + i * Blocks::template apart<row>; });
    return true;
  };
  return use_layout(Layout()) || use_layout(Line());
}

/// The start of the thread's single element outside of full blocks; past the end for some threads.
template <unsigned Threads, unsigned Elements>
__device__ std::uint64_t place_in_rest(std::uint64_t bytes) {
  constexpr unsigned row = Threads * element_bytes, block = row * Elements;
  const std::uint64_t full = bytes / block;
  return full * block + (blockIdx.x - full) * row + threadIdx.x * element_bytes;
}

}  // namespace reprolab::profiling::ceilings
