// The arguments of many_rows.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/nf4_product/many_rows/split_k.cuh"
#include "kernels/nf4_product/many_rows/tiling.hpp"

namespace reprolab::nf4_product {

template <bool Nested>
struct ManyRowsArguments {
  CUtensorMap codes;        ///< Boxes of warpgroup_n x tile_k.
  CUtensorMap activations;  ///< Boxes of the M tile x step_k.
  const void* bias;
  void* output;
  PartialTiles partial_tiles;
  std::int64_t m, n, k;
  NSplit n_split;
  EvenSplit k_split;  ///< How K tiles are split over slices.
  ScalesOf<Nested> scales;
  nf4::Table table;
};

/// Whether blocks may share an N tile, each for a part of the rows: if decoding it several times
/// takes less time than multiplying it once.
__host__ __device__ constexpr bool may_share_m(int tile_m) { return tile_m == 256; }

}  // namespace reprolab::nf4_product
