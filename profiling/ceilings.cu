#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "profiling/ceilings.hpp"
#include "profiling/cuda_check.hpp"

namespace reprolab::profiling::ceilings {
namespace {

// An element is 16 bytes, the widest access of one thread; a line is 128, the unit in which the
// memory system moves whole. The last element may be cut short by the size in bytes.
constexpr unsigned element_bytes = 16, line_bytes = 128;

// Measured on an H200: for a pure stream, small blocks of one element a thread; for the mixed
// stream, 512 threads and two elements of the larger side a thread.
constexpr unsigned write_threads = 128;
constexpr unsigned write_block_bytes = write_threads * element_bytes;
constexpr unsigned read_threads = 256, read_elements_per_thread = 4;
constexpr unsigned read_block_bytes = read_threads * read_elements_per_thread * element_bytes;
constexpr unsigned mixed_threads = 512;
constexpr unsigned mixed_block_bytes = mixed_threads * 2 * element_bytes;

constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

/// The part of a buffer that one block handles. Starts at the start of an element; only the last
/// part of a buffer may end within one.
struct Part {
  std::uint64_t offset;  ///< In bytes, from the start of the buffer.
  unsigned bytes;
};

__device__ Part part_between(std::uint64_t begin, std::uint64_t end, std::uint64_t bytes) {
  const std::uint64_t first = begin < bytes ? begin : bytes;
  const std::uint64_t last = end < bytes ? end : bytes;
  return {first, static_cast<unsigned>(last - first)};
}

/// The words of the part's element at byte `at`, folded into one; zero beyond the end.
__device__ std::uint32_t load_folded(const std::uint8_t* from, Part part, unsigned at) {
  from += part.offset;
  if (at + element_bytes <= part.bytes) {
    const uint4 v = *reinterpret_cast<const uint4*>(from + at);
    return v.x ^ v.y ^ v.z ^ v.w;
  }
  std::uint32_t folded = 0;
  for (unsigned i = at; i < part.bytes; ++i) {
    folded ^= static_cast<std::uint32_t>(from[i]) << 8 * (i % 4);
  }
  return folded;
}

__device__ void store_pattern(std::uint8_t* to, Part part, unsigned at, std::uint32_t flip) {
  const std::uint64_t word = part.offset / 4;
  to += part.offset;
  if (at + element_bytes <= part.bytes) {
    *reinterpret_cast<uint4*>(to + at) =
        make_uint4(pattern_word(word + at / 4) ^ flip, pattern_word(word + at / 4 + 1) ^ flip,
                   pattern_word(word + at / 4 + 2) ^ flip, pattern_word(word + at / 4 + 3) ^ flip);
    return;
  }
  for (unsigned i = at; i < part.bytes; ++i) {
    to[i] = static_cast<std::uint8_t>((pattern_word(word + i / 4) ^ flip) >> 8 * (i % 4));
  }
}

__global__ void __launch_bounds__(write_threads)
    write_kernel(std::uint8_t* to, std::uint64_t bytes) {
  const std::uint64_t begin = std::uint64_t{blockIdx.x} * write_block_bytes;
  const Part part = part_between(begin, begin + write_block_bytes, bytes);
  store_pattern(to, part, threadIdx.x * element_bytes, 0);
}

// The result must look needed, or the loads are dropped. `mask` is zero in a measurement, which
// the compiler cannot know: all loads happen, no write does.
__global__ void __launch_bounds__(read_threads)
    read_kernel(const std::uint8_t* from, std::uint64_t bytes, std::uint32_t mask,
                std::uint32_t* checksum) {
  const std::uint64_t begin = std::uint64_t{blockIdx.x} * read_block_bytes;
  const Part part = part_between(begin, begin + read_block_bytes, bytes);
  std::uint32_t folded = 0;
  if (part.bytes == read_block_bytes) {  // apart, so that the four loads leave at once
#pragma unroll
    for (unsigned i = 0; i < read_elements_per_thread; ++i) {
      const unsigned at = (i * read_threads + threadIdx.x) * element_bytes;
      const uint4 v = *reinterpret_cast<const uint4*>(from + part.offset + at);
      folded ^= v.x ^ v.y ^ v.z ^ v.w;
    }
  } else {
    for (unsigned i = 0; i < read_elements_per_thread; ++i) {
      folded ^= load_folded(from, part, (i * read_threads + threadIdx.x) * element_bytes);
    }
  }
  if ((folded & mask) != 0) atomicXor(checksum, folded);
}

/// How one side of the mixed kernel is dealt out: block b has the lines from b * share to
/// (b + 1) * share, where share is lines a block in 32.32 fixed point. No division in the kernel.
struct Deal {
  std::uint64_t bytes;
  std::uint64_t share;

  __device__ Part part(std::uint64_t block) const {
    return part_between(((block * share) >> 32) * line_bytes,
                        (((block + 1) * share) >> 32) * line_bytes, bytes);
  }
};

// A block loads its share of the input with as many threads as that takes, then all its threads
// store its share of the output. Nothing else: the time of this traffic in this proportion.
__global__ void __launch_bounds__(mixed_threads)
    mixed_kernel(const std::uint8_t* from, Deal reads, std::uint8_t* to, Deal writes) {
  constexpr unsigned step = mixed_threads * element_bytes;
  const Part in = reads.part(blockIdx.x);
  std::uint32_t flip = 0;
  for (unsigned at = threadIdx.x * element_bytes; at < in.bytes; at += step) {
    flip ^= load_folded(from, in, at);
  }
  const Part out = writes.part(blockIdx.x);
  for (unsigned at = threadIdx.x * element_bytes; at < out.bytes; at += step) {
    store_pattern(to, out, at, flip);
  }
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

Deal deal(std::uint64_t bytes, std::uint64_t blocks) {
  // The share times the number of blocks must fit in 64 bits.
  if (bytes > std::uint64_t{1} << 38) {
    throw std::invalid_argument("ceilings: same_bytes takes up to 2^38 bytes a side; got " +
                                std::to_string(bytes));
  }
  const std::uint64_t lines = ceil_div(bytes, line_bytes);
  return {bytes, ceil_div(lines << 32, blocks)};
}

}  // namespace

void copy(void* to, const void* from, std::uint64_t bytes, cudaStream_t stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream),
        "ceiling: copying device memory");
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
  const std::uint64_t larger = std::max(read_bytes, write_bytes);
  if (larger == 0) return;
  const unsigned blocks = blocks_for(larger, mixed_block_bytes);
  const Deal reads = deal(read_bytes, blocks), writes = deal(write_bytes, blocks);
  mixed_kernel<<<blocks, mixed_threads, 0, stream>>>(static_cast<const std::uint8_t*>(from), reads,
                                                     static_cast<std::uint8_t*>(to), writes);
  check(cudaGetLastError(), "ceiling: launching the same-bytes kernel");
}

}  // namespace reprolab::profiling::ceilings
