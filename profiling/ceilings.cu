#include "profiling/ceilings.hpp"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>

#include "profiling/ceiling_kernels.cuh"
#include "profiling/cuda_check.hpp"

namespace reprolab::profiling::ceilings {
namespace {

/// The fastest known form for up to `bytes` written bytes.
struct Fastest {
  std::uint64_t up_to_bytes;
  cudaError_t (*launch)(const Traffic&, cudaStream_t);
};
constexpr std::uint64_t any_size = ~std::uint64_t{0};

template <int Threads, int Elements, class Layout>
constexpr auto launch_streaming_copy =
    launch_copying<CopyForm<Threads, Elements, StreamingAccess, StreamingAccess, Layout>>;

// The fastest of 573 forms that were measured on an H200 on 2026-11-23, or forms within 2 % of
// them, so that fewer forms suffice.
constexpr Fastest copies[] = {
    {3 << 19, launch_streaming_copy<128, 2, Line>},
    {3 << 20, launch_streaming_copy<64, 8, Tile<64, 4096>>},
    {5 << 20, launch_streaming_copy<128, 8, Tile<64, 4096>>},
    {17 << 19, launch_copying<CopyForm<256, 2, PassL1, StreamingAccess>>},
    {18 << 20, launch_streaming_copy<256, 4, Tile<128, 2048>>},
    {22 << 20, launch_streaming_copy<128, 8, Tile<128, 2048>>},
    {any_size, launch_copying<CopyForm<256, 1, KeepReads, PlainAccess>>},
};
constexpr Fastest few_reads[] = {
    {3 << 19, launch_mixing<MixedForm<256, 4, uint2, 3, 1, StreamingAccess, StreamingAccess>>},
    {5 << 20, launch_mixing<
                  MixedForm<64, 4, uint2, 3, 1, StreamingAccess, StreamingAccess, Tile<64, 2048>>>},
    {24 << 20,
     launch_mixing<
         MixedForm<128, 8, uint4, 3, 1, StreamingAccess, StreamingAccess, Tile<64, 2048>>>},
    {36 << 20, launch_mixing<MixedForm<128, 8, uint2, 5, 1, StreamingAccess, StreamingAccess>>},
    {any_size,
     launch_mixing<
         MixedForm<1024, 1, std::uint32_t, 2, 1, StreamingAccess, StreamingAccess, Line, 2 << 20>>},
};
// For reads of more than half the written bytes. If both are equal, a copy is as fast or faster up
// to 4 MiB and from 24 MiB on.
constexpr Fastest many_reads[] = {
    {3 << 19, launch_mixing<MixedForm<512, 2, uint4, 2, 1, StreamingAccess, StreamingAccess>>},
    {3 << 20,
     launch_mixing<
         MixedForm<128, 4, uint4, 4, 1, StreamingAccess, StreamingAccess, Tile<64, 4096>>>},
    {24 << 20,
     launch_mixing<
         MixedForm<128, 8, uint4, 8, 1, StreamingAccess, StreamingAccess, Tile<64, 2048>>>},
    {any_size, launch_mixing<MixedForm<256, 1, uint4, 1, 1, KeepReads, PlainAccess>>},
};

using Ways = std::span<const Fastest>;

void launch(Ways ways, const Traffic& traffic, cudaStream_t stream) {
  const auto fits = [&](const Fastest& way) { return traffic.write_bytes <= way.up_to_bytes; };
  check(std::ranges::find_if(ways, fits)->launch(traffic, stream), "ceiling: launching a kernel");
}

// Smaller blocks that only write are limited by how fast blocks start, not by memory.
constexpr unsigned write_threads = 512, read_threads = 256, read_loads = 4;

__global__ void __launch_bounds__(write_threads)
    write_kernel(std::uint8_t* to, std::uint64_t bytes) {
  store_pattern<write_threads, 1, Line>(to, bytes, StreamingAccess(), [](unsigned) { return 0u; });
}

__global__ void __launch_bounds__(read_threads) read_kernel(Traffic traffic, Partition partition) {
  const Share<PlainAccess, uint4, read_threads, read_loads> share(traffic.from, partition);
  const std::uint32_t sum =
      share.first_loads() ^ share.later_loads() ^ load_rest(traffic.from, traffic.read_bytes);
  if ((sum & traffic.mask) != 0) atomicXor(traffic.checksum, sum);
}

void require_aligned(const void* pointer, const char* what) {
  if (reinterpret_cast<std::uintptr_t>(pointer) % element_bytes == 0) return;
  throw std::invalid_argument(std::string("ceilings: ") + what +
                              " is not 16-byte aligned; pass the start of an allocation");
}

Traffic traffic_of(const void* from, std::uint64_t read_bytes, void* to, std::uint64_t write_bytes,
                   std::uint32_t* checksum = nullptr) {
  require_aligned(from, "the buffer to read");
  require_aligned(to, "the buffer to write");
  return {static_cast<const std::uint8_t*>(from), read_bytes, static_cast<std::uint8_t*>(to),
          write_bytes, checksum};
}

}  // namespace

void copy(void* to, const void* from, std::uint64_t bytes, cudaStream_t stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream),
        "ceiling: copying device memory");
}

void copy_kernel(void* to, const void* from, std::uint64_t bytes, cudaStream_t stream) {
  launch(copies, traffic_of(from, bytes, to, bytes), stream);
}

void write_only(void* to, std::uint64_t bytes, cudaStream_t stream) {
  const Traffic traffic = traffic_of(nullptr, 0, to, bytes);
  if (bytes == 0) return;
  const unsigned blocks = grid_of(ceil_div(bytes, write_threads * element_bytes), bytes);
  write_kernel<<<blocks, write_threads, 0, stream>>>(traffic.to, bytes);
  check(cudaGetLastError(), "ceiling: launching the write-only kernel");
}

void read_only(const void* from, std::uint64_t bytes, cudaStream_t stream,
               std::uint32_t* checksum) {
  const Traffic traffic = traffic_of(from, bytes, nullptr, 0, checksum);
  if (bytes == 0) return;
  const unsigned blocks =
      grid_of(ceil_div(bytes, read_threads * read_loads * element_bytes), bytes);
  read_kernel<<<blocks, read_threads, 0, stream>>>(traffic, Partition(bytes, blocks));
  check(cudaGetLastError(), "ceiling: launching the read-only kernel");
}

void same_bytes(const void* from, std::uint64_t read_bytes, void* to, std::uint64_t write_bytes,
                cudaStream_t stream, std::uint32_t* checksum) {
  const Traffic traffic = traffic_of(from, read_bytes, to, write_bytes, checksum);
  launch(2 * read_bytes <= write_bytes ? Ways(few_reads) : Ways(many_reads), traffic, stream);
}

}  // namespace reprolab::profiling::ceilings
