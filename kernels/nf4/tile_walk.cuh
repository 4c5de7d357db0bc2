// The structure of bitsandbytes' dequantization kernel, which the paper keeps: a block of 64
// threads takes a tile of 512 bytes (1024 weights), 8 bytes per thread, with CUB's warp-transpose
// loads and stores. Each kernel is this walk with its own decode policy.
//
// Source: bitsandbytes kDequantizeBlockwise (tile 512, 64 threads, 8 bytes per thread); paper,
// section V-A.
#pragma once

#include <cub/block/block_load.cuh>
#include <cub/block/block_store.cuh>

#include "kernels/nf4/scales.hpp"
#include "kernels/nf4/support.hpp"

namespace reprolab::nf4 {

/// bitsandbytes' scale: that of the quantization block that the thread's weights are in.
struct ScaleOfQuantizationBlock {
  template <class ScaleReader, class Index>
  __device__ static float read(const ScaleReader& scales, Index first_weight) {
    return scales.at(first_weight);
  }
};

/// The byte that a thread decodes past the end of the data; the result is never stored.
inline constexpr std::uint8_t past_the_end = 128;

/// Shape of a walk: each thread takes BytesPerThread bytes of packed codes, twice as many weights.
template <int BytesPerThread = 8, class Scale = ScaleOfQuantizationBlock>
struct TileShape {
  using ScalePolicy = Scale;
  static constexpr int threads = 64;
  static constexpr int bytes_per_thread = BytesPerThread;
  static constexpr int weights_per_thread = 2 * BytesPerThread;
  static constexpr int tile_bytes = threads * BytesPerThread;
  static constexpr int tile_weights = 2 * tile_bytes;
};

/// `Decode` is a policy: `Storage` (its shared memory), a constructor that fills it and makes it
/// visible to the block, and operator()(code) -> table entry. `Index` counts weights: 32 bits where
/// they suffice, as in bitsandbytes, because 64 bits would make it 2 to 4 % slower.
template <class Decode, class Shape, class Index, class ScaleReader, class Out>
__global__ void tile_walk(const std::uint8_t* codes, const ScaleReader scales, Out* output,
                          const Index n) {
  using Load = cub::BlockLoad<std::uint8_t, Shape::threads, Shape::bytes_per_thread,
                              cub::BLOCK_LOAD_WARP_TRANSPOSE>;
  using Store = cub::BlockStore<Out, Shape::threads, Shape::weights_per_thread,
                                cub::BLOCK_STORE_WARP_TRANSPOSE>;
  __shared__ typename Load::TempStorage load_storage;
  __shared__ typename Store::TempStorage store_storage;
  __shared__ typename Decode::Storage decode_storage;
  const Decode decode(decode_storage);

  // The grid covers the weights, so the loop runs once. It and its barriers are kept as part of
  // bitsandbytes' kernel: they cost registers (48 on sm_90) and so resident blocks.
  const Index bytes = n / 2 + n % 2;
  const Index stride = static_cast<Index>(gridDim.x) * Shape::tile_bytes;
  for (Index first_byte = static_cast<Index>(blockIdx.x) * Shape::tile_bytes; first_byte < bytes;
       first_byte += stride) {
    const std::int64_t bytes_left =
        (static_cast<std::int64_t>(n) + 1) / 2 - static_cast<std::int64_t>(first_byte);
    const int valid_bytes = min(std::int64_t{Shape::tile_bytes}, bytes_left);
    const int valid_weights = min(Index{Shape::tile_weights}, n - 2 * first_byte);

    std::uint8_t packed_codes[Shape::bytes_per_thread];
    __syncthreads();
    Load(load_storage).Load(codes + first_byte, packed_codes, valid_bytes, past_the_end);

    // A thread past the end reads the last weight's scale: a clamp; a branch would cost 2 %.
    const Index thread_weight = 2 * (first_byte + threadIdx.x * Shape::bytes_per_thread);
    const float scale = Shape::ScalePolicy::read(scales, min(thread_weight, n - 1));

    Out weights[Shape::weights_per_thread];
#pragma unroll
    for (int j = 0; j < Shape::bytes_per_thread; ++j) {
      weights[2 * j] = round_to<Out>(scaled(decode(first_code(packed_codes[j])), scale));
      weights[2 * j + 1] = round_to<Out>(scaled(decode(second_code(packed_codes[j])), scale));
    }
    __syncthreads();
    Store(store_storage).Store(output + 2 * first_byte, weights, valid_weights);
  }
}

template <class Decode, class Shape, class Index, class ScaleReader, class Out>
cudaError_t launch_tiles(const Problem& problem, cudaStream_t stream) {
  const std::int64_t tiles = blocks_over(problem.n, Shape::tile_weights);
  if (tiles == 0) return cudaSuccess;
  tile_walk<Decode, Shape, Index><<<grid_of(tiles), Shape::threads, 0, stream>>>(
      problem.codes, ScaleReader(problem), static_cast<Out*>(problem.output),
      static_cast<Index>(problem.n));
  return cudaGetLastError();
}

/// Launches the walk for a problem's length, kind of scales and output type.
template <class Decode, class Shape = TileShape<>>
cudaError_t launch_tile_walk(const Problem& problem, cudaStream_t stream) {
  return with_problem_types(problem, [&]<class Index, class ScaleReader, class Out>() {
    return launch_tiles<Decode, Shape, Index, ScaleReader, Out>(problem, stream);
  });
}

/// A table in shared memory, from which each weight is an indexed read. `Fill::fill(table)` writes
/// it, and a barrier makes it visible to the block.
template <class Fill>
struct SharedTable {
  struct Storage {
    float table[16];
  };
  const float* table;

  __device__ explicit SharedTable(Storage& storage) : table(storage.table) {
    Fill::fill(storage.table);
    __syncthreads();
  }
  __device__ float operator()(unsigned code) const { return table[code]; }
};

}  // namespace reprolab::nf4
