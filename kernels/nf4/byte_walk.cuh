// The walk of D. Robertson's post, without CUB: a thread takes single bytes, which are two weights
// each, and looks up the scale of every byte. Kernels differ in the shape of a thread block and in
// how they store the two weights.
//
// Source: D. Robertson's post. Its tiles are cut from the rows of a matrix; here a weight is a flat
// list of bytes, so the rows of a tile follow one another in memory.
#pragma once

#include "kernels/nf4/constant_table.cuh"
#include "kernels/nf4/scales.hpp"
#include "kernels/nf4/support.hpp"

namespace reprolab::nf4 {

struct NothingHeld {
  __device__ explicit NothingHeld(const float*) {}
  __device__ void release(float*, bool) const {}
};

/// 24 registers that a thread does not need, held until after its last store, so that a kernel has
/// the number of registers per thread that a statement about its occupancy assumes. ptxas has no
/// option for "at least so many registers". But it may not drop a volatile load, and must keep the
/// loaded value while it may still be used.
///
/// Entries of the table: all 16, then the first eight again. Each load reads four, the same for all
/// threads of a warp.
class HeldTable {
 public:
  __device__ explicit HeldTable(const float* table) {
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(table));
#pragma unroll
    for (int i = 0; i < 6; ++i) {
      float4& four = held_[i];
      asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
                   : "r"(address + 16 * (i % 4)));
    }
  }

  /// The use that never happens: `really` is false, which the compiler cannot prove. It would not
  /// change the table.
  __device__ void release(float* table, bool really) const {
    if (!really) return;
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(table));
#pragma unroll
    for (int i = 0; i < 6; ++i) {
      const float4& four = held_[i];
      asm volatile("st.volatile.shared.v4.f32 [%4], {%0, %1, %2, %3};" ::"f"(four.x), "f"(four.y),
                   "f"(four.z), "f"(four.w), "r"(address + 16 * (i % 4)));
    }
  }

 private:
  float4 held_[6];
};

/// Thread blocks of Width x Rows threads. Thread (x, y) takes bytes x, x + Width, ... of row y,
/// BytesAtOnce of them before it stores their weights. `Held_`: what else a thread keeps in
/// registers.
template <int Width, int Rows, int BytesPerThread, int BytesAtOnce = BytesPerThread,
          class Held_ = NothingHeld>
struct ByteTile {
  static constexpr int width = Width, rows = Rows;
  static constexpr int bytes_per_thread = BytesPerThread, bytes_at_once = BytesAtOnce;
  static constexpr int row_bytes = Width * BytesPerThread;
  static constexpr int tile_bytes = Rows * row_bytes;
  using Held = Held_;
};

/// Both weights of a byte in one 32-bit store.
struct PackedStore {
  template <class Out, class Index>
  __device__ static void pair(Out* output, Index byte, float first, float second) {
    reinterpret_cast<std::uint32_t*>(output)[byte] = packed<Out>(first, second);
  }
};

/// `Store`: `pair(output, byte, first, second)` writes weights 2 * byte and 2 * byte + 1.
template <class Store, class Tile, class Index, class ScaleReader, class Out>
__global__ void __launch_bounds__(Tile::width* Tile::rows)
    byte_walk(const std::uint8_t* __restrict__ codes, const ScaleReader scales,
              Out* __restrict__ output, const Index n) {
  const unsigned x = threadIdx.x, y = Tile::rows == 1 ? 0 : threadIdx.y;
  __shared__ alignas(16) float table[16];
  if (x < 16 && y == 0) table[x] = constant_table.entry[x];
  __syncthreads();

  typename Tile::Held held(table);

  const Index first_byte =
      static_cast<Index>(blockIdx.x) * Tile::tile_bytes + y * Tile::row_bytes + x;
#pragma unroll
  for (int begin = 0; begin < Tile::bytes_per_thread; begin += Tile::bytes_at_once) {
    // Keeps later loads after the stores before them.
    if (begin > 0 && 2 * (first_byte + begin * Tile::width) >= n) return;
    // Weights are ready before the first is stored, so that their loads are in flight together.
    // Past the end the last byte is loaded, because branches would keep the loads apart.
    float first[Tile::bytes_at_once], second[Tile::bytes_at_once];
#pragma unroll
    for (int i = 0; i < Tile::bytes_at_once; ++i) {
      const Index byte = min(first_byte + (begin + i) * Tile::width, (n - 1) / 2);
      const std::uint8_t packed_codes = codes[byte];
      const float scale = scales.at(2 * byte);  // block sizes are even: both weights share it
      first[i] = scaled(table[first_code(packed_codes)], scale);
      second[i] = scaled(table[second_code(packed_codes)], scale);
    }
#pragma unroll
    for (int i = 0; i < Tile::bytes_at_once; ++i) {
      const Index byte = first_byte + (begin + i) * Tile::width;
      if (2 * byte + 1 < n) {
        Store::pair(output, byte, first[i], second[i]);
      } else if (2 * byte < n) {  // the last byte of an odd length holds one weight
        output[2 * byte] = round_to<Out>(first[i]);
      }
    }
  }
  held.release(table, n == 0);
}

template <class Store, class Tile, class Index, class ScaleReader, class Out>
cudaError_t launch_bytes(const Problem& problem, cudaStream_t stream) {
  const std::int64_t tiles = blocks_over(problem.n, 2 * Tile::tile_bytes);
  if (tiles == 0) return cudaSuccess;
  byte_walk<Store, Tile, Index><<<grid_of(tiles), dim3(Tile::width, Tile::rows), 0, stream>>>(
      problem.codes, ScaleReader(problem), static_cast<Out*>(problem.output),
      static_cast<Index>(problem.n));
  return cudaGetLastError();
}

/// Launches the walk for a problem's length, kind of scales and output type.
template <class Store, class Tile = ByteTile<256, 1, 1>, class NestedReader = NestedScaleReader>
cudaError_t launch_byte_walk(const Problem& problem, cudaStream_t stream) {
  return with_problem_types<NestedReader>(
      problem, [&]<class Index, class ScaleReader, class Out>() {
        return launch_bytes<Store, Tile, Index, ScaleReader, Out>(problem, stream);
      });
}

}  // namespace reprolab::nf4
