#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "profiling/ceilings.hpp"
#include "profiling/cuda_check.hpp"

namespace reprolab::profiling::ceilings {
namespace {

// An element is 16 bytes, the widest access of one thread. The last one of a buffer may be shorter.
constexpr unsigned element_bytes = 16;

// The fastest on an H200 in a sweep over 128 to 1024 threads per block and 1 to 8 elements per
// thread. Smaller blocks of the writing kernel are limited by how fast blocks start, not by memory.
constexpr unsigned write_threads = 512;
constexpr unsigned copy_threads = 128, copy_block_bytes = copy_threads * element_bytes;
constexpr unsigned write_block_bytes = write_threads * element_bytes;
constexpr unsigned read_threads = 256, read_elements_per_thread = 4;
constexpr unsigned read_block_bytes = read_threads * read_elements_per_thread * element_bytes;
constexpr unsigned mixed_threads = 512, mixed_stores = 2, mixed_loads_at_most = 8;
constexpr unsigned mixed_block_bytes = mixed_threads * mixed_stores * element_bytes;

constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

/// The part of a buffer that one block handles. It begins at the start of an element; only the last
/// part of a buffer may end inside an element.
struct Part {
  std::uint64_t offset;  ///< In bytes, from the start of the buffer.
  unsigned bytes;
};

__device__ Part part_between(std::uint64_t begin, std::uint64_t end, std::uint64_t bytes) {
  const std::uint64_t first = begin < bytes ? begin : bytes;
  const std::uint64_t last = end < bytes ? end : bytes;
  return {first, static_cast<unsigned>(last - first)};
}

__device__ std::uint32_t folded(std::uint32_t word) { return word; }
__device__ std::uint32_t folded(uint4 v) { return v.x ^ v.y ^ v.z ^ v.w; }

/// XOR of the words of the part's element at byte `at`; bytes past the end count as zero.
__device__ std::uint32_t load_folded(const std::uint8_t* from, Part part, unsigned at) {
  from += part.offset;
  if (at + element_bytes <= part.bytes) {
    return folded(__ldcs(reinterpret_cast<const uint4*>(from + at)));
  }
  std::uint32_t sum = 0;
  for (unsigned i = at; i < part.bytes; ++i) {
    sum ^= static_cast<std::uint32_t>(from[i]) << 8 * (i % 4);
  }
  return sum;
}

/// Stores the pattern of element `index`, XORed with `flip`, at the element's place.
__device__ void store_element(std::uint8_t* to, std::uint64_t index, std::uint32_t flip) {
  const std::uint64_t word = index * (element_bytes / 4);
  __stcs(reinterpret_cast<uint4*>(to) + index,
         make_uint4(pattern_word(word) ^ flip, pattern_word(word + 1) ^ flip,
                    pattern_word(word + 2) ^ flip, pattern_word(word + 3) ^ flip));
}

/// The same for the part's element at byte `at`, which may be cut short by the end of the part.
__device__ void store_pattern(std::uint8_t* to, Part part, unsigned at, std::uint32_t flip) {
  if (at + element_bytes <= part.bytes) {
    return store_element(to, (part.offset + at) / element_bytes, flip);
  }
  const std::uint64_t word = part.offset / 4;
  to += part.offset;
  for (unsigned i = at; i < part.bytes; ++i) {
    to[i] = static_cast<std::uint8_t>((pattern_word(word + i / 4) ^ flip) >> 8 * (i % 4));
  }
}

// Small blocks and one element per thread: the more often reads and writes alternate, the closer
// the kernel comes to cudaMemcpy.
__global__ void __launch_bounds__(copy_threads)
    copying_kernel(std::uint8_t* to, const std::uint8_t* from, std::uint64_t bytes) {
  const std::uint64_t at =
      std::uint64_t{blockIdx.x} * copy_block_bytes + threadIdx.x * element_bytes;
  if (at + element_bytes <= bytes) {
    *reinterpret_cast<uint4*>(to + at) = *reinterpret_cast<const uint4*>(from + at);
  } else {
    for (std::uint64_t i = at; i < bytes; ++i) to[i] = from[i];
  }
}

__global__ void __launch_bounds__(write_threads)
    write_kernel(std::uint8_t* to, std::uint64_t bytes) {
  const std::uint64_t begin = std::uint64_t{blockIdx.x} * write_block_bytes;
  const Part part = part_between(begin, begin + write_block_bytes, bytes);
  store_pattern(to, part, threadIdx.x * element_bytes, 0);
}

// The result must appear to be used, or the compiler removes the loads. `mask` is zero in a
// measurement, which the compiler cannot know: all loads happen, but no write.
__global__ void __launch_bounds__(read_threads)
    read_kernel(const std::uint8_t* from, std::uint64_t bytes, std::uint32_t mask,
                std::uint32_t* checksum) {
  const std::uint64_t begin = std::uint64_t{blockIdx.x} * read_block_bytes;
  const Part part = part_between(begin, begin + read_block_bytes, bytes);
  std::uint32_t sum = 0;
  if (part.bytes == read_block_bytes) {  // separate, so that all four loads are issued at once
#pragma unroll
    for (unsigned i = 0; i < read_elements_per_thread; ++i) {
      const unsigned at = (i * read_threads + threadIdx.x) * element_bytes;
      const uint4 v = *reinterpret_cast<const uint4*>(from + part.offset + at);
      sum ^= folded(v);
    }
  } else {
    for (unsigned i = 0; i < read_elements_per_thread; ++i) {
      sum ^= load_folded(from, part, (i * read_threads + threadIdx.x) * element_bytes);
    }
  }
  if ((sum & mask) != 0) atomicXor(checksum, sum);
}

/// How the work on one side (reads or writes) of the mixed kernel is divided: `units` for each
/// regular block, and the remainder for one extra block.
struct Deal {
  std::uint64_t bytes;
  unsigned units;  ///< Per regular block.
  unsigned unit_bytes;
  std::uint64_t blocks;

  __host__ __device__ std::uint64_t dealt_bytes() const { return blocks * units * unit_bytes; }
};

/// The extra block's work on the remainder. It is slow and simple: one block among thousands.
__device__ void move_rest(const std::uint8_t* from, Deal reads, std::uint8_t* to, Deal writes) {
  std::uint32_t flip = 0;
  const std::uint64_t step = std::uint64_t{mixed_threads} * element_bytes;
  const std::uint64_t lane = threadIdx.x * element_bytes;
  for (std::uint64_t at = reads.dealt_bytes() + lane; at < reads.bytes; at += step) {
    flip ^= load_folded(from, part_between(at, at + element_bytes, reads.bytes), 0);
  }
  // All bytes alike, so that the data read affect even an output of one byte.
  flip ^= flip >> 16;
  flip = ((flip ^ flip >> 8) & 0xffu) * 0x01010101u;
  for (std::uint64_t at = writes.dealt_bytes() + lane; at < writes.bytes; at += step) {
    store_pattern(to, part_between(at, at + element_bytes, writes.bytes), 0, flip);
  }
}

// Each block loads its share of the input, all loads of a thread at once, then stores its share of
// the output. It does nothing else, so its time is that of this traffic in this proportion.
template <class Unit, unsigned Loads>
__global__ void __launch_bounds__(mixed_threads)
    mixed_kernel(const std::uint8_t* from, Deal reads, std::uint8_t* to, Deal writes) {
  if (blockIdx.x == reads.blocks) return move_rest(from, reads, to, writes);
  const Unit* const in =
      reinterpret_cast<const Unit*>(from) + std::uint64_t{blockIdx.x} * reads.units;
  std::uint32_t flip = 0;
#pragma unroll
  for (unsigned i = 0; i < Loads; ++i) {
    const unsigned at = threadIdx.x + i * mixed_threads;
    if (at < reads.units) flip ^= folded(__ldcs(in + at));
  }
  const std::uint64_t first = std::uint64_t{blockIdx.x} * writes.units;
#pragma unroll
  for (unsigned i = 0; i < mixed_stores; ++i) {
    const unsigned at = threadIdx.x + i * mixed_threads;
    if (at < writes.units) store_element(to, first + at, flip);
  }
}

using MixedKernel = void (*)(const std::uint8_t*, Deal, std::uint8_t*, Deal);

template <class Unit, unsigned... Loads>
MixedKernel mixed_kernel_for(unsigned loads, std::integer_sequence<unsigned, Loads...>) {
  static constexpr MixedKernel kernels[] = {mixed_kernel<Unit, Loads + 1>...};
  return kernels[std::max(loads, 1u) - 1];
}

void require_aligned(const void* pointer, const char* what) {
  if (reinterpret_cast<std::uintptr_t>(pointer) % element_bytes == 0) return;
  throw std::invalid_argument(std::string("ceilings: ") + what +
                              " is not 16-byte aligned; pass the start of an allocation");
}

unsigned blocks_for(std::uint64_t bytes, std::uint64_t bytes_per_block) {
  const std::uint64_t blocks = ceil_div(bytes, bytes_per_block);
  if (blocks <= 0x7fffffffu) return static_cast<unsigned>(blocks);
  throw std::invalid_argument("ceilings: " + std::to_string(bytes) +
                              " bytes need more blocks than a grid holds; pass fewer");
}

/// Each thread makes `loads` loads. With few bytes to read, `Unit` is a word instead of 16 bytes,
/// so that every thread has something to load.
template <class Unit>
void launch_mixed(const std::uint8_t* from, std::uint64_t read_bytes, std::uint8_t* to,
                  std::uint64_t write_bytes, std::uint64_t blocks, cudaStream_t stream) {
  const auto deal = [&](std::uint64_t bytes, unsigned unit_bytes) {
    // Whole elements, so that the remainder begins at the start of an element.
    const auto elements = static_cast<unsigned>(bytes / element_bytes / blocks);
    return Deal{bytes, elements * (element_bytes / unit_bytes), unit_bytes, blocks};
  };
  const Deal reads = deal(read_bytes, sizeof(Unit)), writes = deal(write_bytes, element_bytes);
  const auto loads = static_cast<unsigned>(ceil_div(reads.units, mixed_threads));
  const auto kernel =
      mixed_kernel_for<Unit>(loads, std::make_integer_sequence<unsigned, mixed_loads_at_most>{});
  const bool rest = reads.dealt_bytes() < read_bytes || writes.dealt_bytes() < write_bytes;
  kernel<<<static_cast<unsigned>(blocks + rest), mixed_threads, 0, stream>>>(from, reads, to,
                                                                             writes);
  check(cudaGetLastError(), "ceiling: launching the same-bytes kernel");
}

}  // namespace

void copy(void* to, const void* from, std::uint64_t bytes, cudaStream_t stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream),
        "ceiling: copying device memory");
}

void copy_kernel(void* to, const void* from, std::uint64_t bytes, cudaStream_t stream) {
  require_aligned(from, "the buffer to read");
  require_aligned(to, "the buffer to write");
  if (bytes == 0) return;
  const unsigned blocks = blocks_for(bytes, copy_block_bytes);
  copying_kernel<<<blocks, copy_threads, 0, stream>>>(
      static_cast<std::uint8_t*>(to), static_cast<const std::uint8_t*>(from), bytes);
  check(cudaGetLastError(), "ceiling: launching the copying kernel");
}

void write_only(void* to, std::uint64_t bytes, cudaStream_t stream) {
  require_aligned(to, "the buffer to write");
  if (bytes == 0) return;
  const unsigned blocks = blocks_for(bytes, write_block_bytes);
  write_kernel<<<blocks, write_threads, 0, stream>>>(static_cast<std::uint8_t*>(to), bytes);
  check(cudaGetLastError(), "ceiling: launching the write-only kernel");
}

void read_only(const void* from, std::uint64_t bytes, cudaStream_t stream,
               std::uint32_t* checksum) {
  require_aligned(from, "the buffer to read");
  if (bytes == 0) return;
  const unsigned blocks = blocks_for(bytes, read_block_bytes);
  read_kernel<<<blocks, read_threads, 0, stream>>>(static_cast<const std::uint8_t*>(from), bytes,
                                                   checksum ? ~0u : 0u, checksum);
  check(cudaGetLastError(), "ceiling: launching the read-only kernel");
}

void same_bytes(const void* from, std::uint64_t read_bytes, void* to, std::uint64_t write_bytes,
                cudaStream_t stream) {
  require_aligned(from, "the buffer to read");
  require_aligned(to, "the buffer to write");
  if (std::max(read_bytes, write_bytes) == 0) return;
  constexpr std::uint64_t most_read = mixed_threads * mixed_loads_at_most * element_bytes;
  const std::uint64_t blocks =
      std::max({1u, blocks_for(write_bytes, mixed_block_bytes), blocks_for(read_bytes, most_read)});
  const auto* in = static_cast<const std::uint8_t*>(from);
  auto* out = static_cast<std::uint8_t*>(to);
  const bool few_reads = 4 * read_bytes <= mixed_block_bytes * blocks;
  few_reads ? launch_mixed<std::uint32_t>(in, read_bytes, out, write_bytes, blocks, stream)
            : launch_mixed<uint4>(in, read_bytes, out, write_bytes, blocks, stream);
}

}  // namespace reprolab::profiling::ceilings
