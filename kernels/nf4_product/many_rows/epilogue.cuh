// The epilogue of many_rows.
#pragma once

#include "kernels/nf4_product/many_rows/arguments.cuh"

namespace reprolab::nf4_product {

/// The epilogue of an N tile: writes a warp's sums as outputs or, with split-K, as partial sums.
template <class Out, int TileM, bool Nested>
__device__ void write_sums(const ManyRowsArguments<Nested>& args, int slice, std::int64_t m_index,
                           int rows, std::int64_t n_index, int columns,
                           const float (&sum)[TileM / 2]) {
  if (columns <= 0) return;
  const auto sums_of = [&](int e) {
    return float4{sum[e * 4], sum[e * 4 + 1], sum[e * 4 + 2], sum[e * 4 + 3]};
  };
  const PartialTiles& tiles = args.partial_tiles;
  if (tiles.split_k == 1) {
    const TileWriter<Out> writer(args.output, args.bias, args.n, m_index, rows, n_index, columns);
#pragma unroll
    for (int e = 0; e < TileM / 8; ++e) writer.write(e, sums_of(e));
    return;
  }
  float4* at = tiles.of(slice, m_index / 8 * tiles.columns + n_index / warp_n) + this_lane();
#pragma unroll
  for (int e = 0; e < TileM / 8; ++e, at += tiles.columns * lanes) {
    if (e * 8 < rows) __stcg(at, sums_of(e));
  }
}

}  // namespace reprolab::nf4_product
