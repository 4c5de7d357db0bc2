// The kernels of the ceilings. A form is a way to move bytes: threads per block, elements and loads
// per thread, and cache hints. ceilings.cu has the fastest known forms.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/access.cuh"
#include "profiling/ceilings.hpp"

namespace reprolab::profiling::ceilings {

// ---- The memory that a block writes: consecutive bytes, or a tile of short rows ----

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

constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

/// The grid of `blocks` blocks, which move `bytes`.
inline unsigned grid_of(std::uint64_t blocks, std::uint64_t bytes) {
  if (blocks <= 0x7fffffffu) return static_cast<unsigned>(blocks);
  throw std::invalid_argument("ceilings: " + std::to_string(bytes) +
                              " bytes need more blocks than a grid holds; pass fewer");
}

/// A form's blocks: full blocks, then blocks of one element per thread for the remaining bytes.
template <class Form>
unsigned blocks_of(std::uint64_t bytes) {
  constexpr std::uint64_t row = Form::threads * element_bytes;
  return grid_of(bytes / Form::block_bytes + ceil_div(bytes % Form::block_bytes, row), bytes);
}

/// Bytes of one prefetch to L2, in forms that read ahead.
inline constexpr unsigned burst_bytes = 32 << 10;

// ---- Copies ----

/// A thread moves `Elements` elements, `Threads` elements apart in a block of `Layout`.
template <int Threads, int Elements, class ReadPolicy, class StorePolicy, class BlockLayout = Line>
struct CopyForm {
  using Layout = BlockLayout;
  using Reads = ReadPolicy;
  using Stores = StorePolicy;
  static constexpr unsigned threads = Threads, elements = Elements;
  static constexpr unsigned block_bytes = threads * elements * element_bytes;
};

template <class Form>
__global__ void __launch_bounds__(Form::threads) copying(Traffic traffic) {
  const typename Form::Reads reads;
  const typename Form::Stores stores;
  const auto load = [&](std::uint64_t at) {
    return reads.load(reinterpret_cast<const uint4*>(traffic.from + at));
  };
  const auto store = [&](std::uint64_t at, uint4 element) {
    stores.store(reinterpret_cast<uint4*>(traffic.to + at), element);
  };
  const auto move = [&](auto place) {
    uint4 element[Form::elements];  // all loads come first, so all are in flight at once
#pragma unroll
    for (unsigned i = 0; i < Form::elements; ++i) element[i] = load(place(i));
#pragma unroll
    for (unsigned i = 0; i < Form::elements; ++i) store(place(i), element[i]);
  };
  using Layout = typename Form::Layout;
  if (with_places<Layout, Form::threads, Form::elements>(traffic.write_bytes, move)) return;
  const std::uint64_t at = place_in_rest<Form::threads, Form::elements>(traffic.write_bytes);
  if (at + element_bytes <= traffic.write_bytes) {
    store(at, load(at));
  } else {
    for (std::uint64_t k = at; k < traffic.write_bytes; ++k) traffic.to[k] = traffic.from[k];
  }
}

template <class Form>
cudaError_t launch_copying(const Traffic& traffic, cudaStream_t stream) {
  if (traffic.write_bytes == 0) return cudaSuccess;
  copying<Form><<<blocks_of<Form>(traffic.write_bytes), Form::threads, 0, stream>>>(traffic);
  return cudaGetLastError();
}

// ---- Reads divided between blocks ----

__device__ inline std::uint32_t folded(std::uint32_t word) { return word; }
__device__ inline std::uint32_t folded(uint2 v) { return v.x ^ v.y; }
__device__ inline std::uint32_t folded(uint4 v) { return v.x ^ v.y ^ v.z ^ v.w; }

/// The whole elements of a buffer, divided evenly between blocks: the first `larger` of them get
/// one more.
struct Partition {
  std::uint64_t share = 0, larger = 0;
  unsigned burst_blocks = 1, ahead_blocks = 0;  ///< For forms that read ahead.

  Partition() = default;
  Partition(std::uint64_t bytes, std::uint64_t blocks, std::uint64_t ahead_bytes = 0)
      : share(bytes / element_bytes / blocks), larger(bytes / element_bytes % blocks) {
    const std::uint64_t share_bytes = std::max<std::uint64_t>(share, 1) * element_bytes;
    burst_blocks = static_cast<unsigned>(ceil_div(burst_bytes, share_bytes));
    ahead_blocks = static_cast<unsigned>(ahead_bytes / share_bytes);
  }
  __device__ std::uint64_t first(unsigned block) const {
    return block * share + (block < larger ? block : larger);
  }
  /// Prefetches to L2 the data of a burst of later blocks, in one block of each burst.
  template <unsigned Threads>
  __device__ void read_ahead(const std::uint8_t* from) const {
    if (blockIdx.x % burst_blocks != 0) return;
    const std::uint64_t begin = first(blockIdx.x + ahead_blocks) * element_bytes;
    prefetch_to_l2<Threads>(from, begin,
                            static_cast<unsigned>(burst_blocks * (share + 1) * element_bytes),
                            first(gridDim.x) * element_bytes);
  }
};

/// The part of a buffer that one block reads. A thread loads `Loads` units at once; the constructor
/// starts the first loads, so that the loads of two buffers are in flight together.
template <class Reads, class Unit, unsigned Threads, unsigned Loads>
class Share {
 public:
  __device__ Share(const std::uint8_t* from, const Partition& partition)
      : units_(reinterpret_cast<const Unit*>(from + partition.first(blockIdx.x) * element_bytes)),
        count_(
            static_cast<unsigned>(partition.first(blockIdx.x + 1) - partition.first(blockIdx.x)) *
            (element_bytes / sizeof(Unit))) {
#pragma unroll
    for (unsigned i = 0; i < Loads; ++i) {
      const unsigned at = threadIdx.x + i * Threads;
      unit_[i] = at < count_ ? reads_.load(units_ + at) : Unit{};
    }
  }

  /// The XOR of the first loads that have bytes of one of `parts` equal parts.
  __device__ std::uint32_t first_loads(unsigned part = 0, unsigned parts = 1) const {
    std::uint32_t sum = 0;
#pragma unroll
    for (unsigned i = 0; i < Loads; ++i) {
      if (i * parts < (part + 1) * Loads && part * Loads < (i + 1) * parts) {
        sum ^= folded(unit_[i]);
      }
    }
    return sum;
  }
  /// Loads the rest now, and returns its XOR.
  __device__ std::uint32_t later_loads() const {
    std::uint32_t sum = 0;
#pragma unroll 4
    for (unsigned at = threadIdx.x + Loads * Threads; at < count_; at += Threads) {
      sum ^= folded(reads_.load(units_ + at));
    }
    return sum;
  }

 private:
  const Reads reads_{};
  const Unit* units_;
  unsigned count_;
  Unit unit_[Loads];
};

/// The word with the bytes after the last whole element of a buffer. The last block reads them.
__device__ inline std::uint32_t load_rest(const std::uint8_t* from, std::uint64_t bytes) {
  const std::uint64_t at = bytes / element_bytes * element_bytes + threadIdx.x;
  if (blockIdx.x + 1 < gridDim.x || at >= bytes) return 0;
  return static_cast<std::uint32_t>(from[at]) << 8 * (threadIdx.x % 4);
}

// ---- Reads and writes in any proportion ----

/// A thread loads `Loads` units at once, and then stores `Elements` elements, `Threads` elements
/// apart in a block of `Layout`. With two streams, the last ninth of the reads is a separate stream
/// of words, like the scales of a list of codes.
template <int Threads, int Elements, class LoadUnit, int Loads, int Streams, class ReadPolicy,
          class StorePolicy, class BlockLayout = Line, int AheadBytes = 0>
struct MixedForm {
  static_assert(Streams == 1 || Streams == 2);
  using Layout = BlockLayout;
  using Unit = LoadUnit;
  using Reads = ReadPolicy;
  using Stores = StorePolicy;
  static constexpr unsigned threads = Threads, elements = Elements, loads = Loads,
                            streams = Streams, ahead_bytes = AheadBytes;
  static constexpr unsigned block_bytes = threads * elements * element_bytes;
};

/// The pattern of element `index`, XORed with `flip`.
__device__ inline uint4 pattern_element(std::uint64_t index, std::uint32_t flip) {
  const std::uint64_t word = index * (element_bytes / 4);
  return make_uint4(pattern_word(word) ^ flip, pattern_word(word + 1) ^ flip,
                    pattern_word(word + 2) ^ flip, pattern_word(word + 3) ^ flip);
}

/// Stores the pattern to the thread's elements inside the buffer; `flip` gives the word that an
/// element is XORed with.
template <unsigned Threads, unsigned Elements, class Layout, class Stores, class Flip>
__device__ void store_pattern(std::uint8_t* to, std::uint64_t bytes, const Stores& stores,
                              Flip flip) {
  const auto store = [&](unsigned i, std::uint64_t at) {
    stores.store(reinterpret_cast<uint4*>(to + at), pattern_element(at / element_bytes, flip(i)));
  };
  const auto store_all = [&](auto place) {
#pragma unroll
    for (unsigned i = 0; i < Elements; ++i) store(i, place(i));
  };
  if (with_places<Layout, Threads, Elements>(bytes, store_all)) return;
  const std::uint64_t at = place_in_rest<Threads, Elements>(bytes);
  if (at + element_bytes <= bytes) {
    store(0, at);
  } else {
    for (std::uint64_t k = at; k < bytes; ++k) {
      to[k] = static_cast<std::uint8_t>((pattern_word(k / 4) ^ flip(0)) >> 8 * (k % 4));
    }
  }
}

/// No element is stored before its part of the loads has arrived, as in a kernel that computes.
template <class Form>
__global__ void __launch_bounds__(Form::threads)
    mixing(Traffic traffic, std::uint64_t first_bytes, Partition first, Partition second) {
  using Reads = typename Form::Reads;
  if constexpr (Form::ahead_bytes > 0) {
    first.template read_ahead<Form::threads>(traffic.from);
    if (Form::streams == 2) second.template read_ahead<Form::threads>(traffic.from + first_bytes);
  }
  const Share<Reads, typename Form::Unit, Form::threads, Form::loads> share(traffic.from, first);
  std::uint32_t others = load_rest(traffic.from, traffic.read_bytes);
  if constexpr (Form::streams == 2) {
    const Share<Reads, std::uint32_t, Form::threads, 1> second_share(traffic.from + first_bytes,
                                                                     second);
    others ^= second_share.first_loads() ^ second_share.later_loads();
  }
  others ^= share.later_loads();
  store_pattern<Form::threads, Form::elements, typename Form::Layout>(
      traffic.to, traffic.write_bytes, typename Form::Stores(),
      [&](unsigned i) { return (others ^ share.first_loads(i, Form::elements)) & traffic.mask; });
  const std::uint32_t sum = (others ^ share.first_loads()) & traffic.mask;
  if (sum != 0) atomicXor(traffic.checksum, sum);
}

template <class Form>
cudaError_t launch_mixing(const Traffic& traffic, cudaStream_t stream) {
  // If little or nothing is written, there are enough blocks for the reads.
  constexpr std::uint64_t max_read = Form::threads * 8 * element_bytes;
  const unsigned blocks =
      std::max(blocks_of<Form>(traffic.write_bytes),
               grid_of(ceil_div(traffic.read_bytes, max_read), traffic.read_bytes));
  if (blocks == 0) return cudaSuccess;
  const std::uint64_t elements = traffic.read_bytes / element_bytes;
  const std::uint64_t in_second = Form::streams == 2 ? elements / 9 : 0;
  const std::uint64_t first_bytes = (elements - in_second) * element_bytes;
  mixing<Form><<<blocks, Form::threads, 0, stream>>>(
      traffic, first_bytes, Partition(first_bytes, blocks, Form::ahead_bytes),
      Partition(in_second * element_bytes, blocks, Form::ahead_bytes / 8));
  return cudaGetLastError();
}

}  // namespace reprolab::profiling::ceilings
