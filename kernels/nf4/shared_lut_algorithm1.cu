// Algorithm 1 with line 12, `absmax[blockIdx]`, read as CUDA's blockIdx.x: one scale for a tile
// of 512 weights, which is eight quantization blocks of 64. The rest is as in shared_lut_tile512.
//
// Source: paper, Algorithm 1, with the tile of 512 weights of section IV-F.
// Bound:  as in shared_lut_tile512. Its output is wrong unless one quantization block fills a tile.
// Alone:  make bench KERNEL=shared_lut_algorithm1
#include "kernels/nf4/expected_output.hpp"
#include "kernels/nf4/shared_lut.cuh"

namespace reprolab::nf4 {
namespace {

struct ScaleOfTile {
  template <class ScaleReader, class Index>
  __device__ static float read(const ScaleReader& scales, Index) {
    return scales.block_scale(blockIdx.x);
  }
};
using Shape = TileShape<4, ScaleOfTile>;

Support supports(const Problem& problem) {
  if (problem.block_size > Shape::tile_weights) {
    return Support::no("absmax[blockIdx] reads past the end: fewer scales than tiles of 512");
  }
  return supports_standard_table(problem);
}

void expected_output(const Problem& host, std::int64_t begin, std::int64_t end) {
  write_expected(host, begin, end, [&](std::int64_t i) {
    return host_scale(host, i / Shape::tile_weights, nested_scale);
  });
}

const Register<Problem> registered{{
    .name = "shared_lut_algorithm1",
    .lineage = "paper, Algorithm 1 as printed",
    .contract = DeclaredDeviation{"line 12 of Algorithm 1 takes one scale, "
                                  "absmax[blockIdx], for each tile of 512 weights"},
    .expected_output = expected_output,
    .supports = supports,
    .launch = launch_tile_walk<SharedLut, Shape>,
}};

}  // namespace
}  // namespace reprolab::nf4
