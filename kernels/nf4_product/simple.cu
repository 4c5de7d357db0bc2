// The matmul by its definition: a warp computes 8 rows of one column of the output; a lane has
// every 32nd element of K. It multiplies by the 16-bit weights that dequantization writes. It
// supports every GPU, alignment and block size, and all shapes that fit a grid; the faster kernels
// do not.
//
// Source: ours.
// Bound:  integer and fp32 instructions: every weight is decoded again for each 8 rows.
// Alone:  make bench KERNEL=simple
#include "kernels/nf4_product/decode.cuh"
#include "kernels/nf4_product/device.hpp"

namespace reprolab::nf4_product {
namespace {

constexpr int warps = 8, rows_per_warp = 8;

template <class Out, bool Nested>
__global__ void __launch_bounds__(warps * 32)
    simple(const std::uint8_t* codes, const ScalesOf<Nested> all_scales, const nf4::Table table,
           const Out* input, const Out* bias, Out* output, std::int64_t m, std::int64_t n,
           std::int64_t k) {
  const std::int64_t column = std::int64_t{blockIdx.x} * warps + threadIdx.x / 32;
  const std::int64_t first_row = std::int64_t{blockIdx.y} * rows_per_warp;
  const int lane = threadIdx.x % 32;
  if (column >= n) return;

  const Scales<Nested> scales(all_scales, column * k);
  float sum[rows_per_warp] = {};
  for (std::int64_t i = lane; i < k; i += 32) {
    const std::int64_t at = column * k + i;
    const std::uint8_t byte = codes[at / 2];
    const unsigned code = at % 2 == 0 ? nf4::first_code(byte) : nf4::second_code(byte);
    const float scale = scales.value(scales.load(static_cast<unsigned>(i)));
    const float weight = to_float(nf4::round_to<Out>(nf4::scaled(table.entry[code], scale)));
#pragma unroll
    for (int r = 0; r < rows_per_warp; ++r) {
      const std::int64_t row = first_row + r;
      if (row < m) sum[r] = fmaf(weight, to_float(input[row * k + i]), sum[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < rows_per_warp; ++r) {
    for (int apart = 16; apart > 0; apart /= 2) sum[r] += __shfl_xor_sync(~0u, sum[r], apart);
    const std::int64_t row = first_row + r;
    if (lane == 0 && row < m) write_output<Out>(output, row * n + column, sum[r], bias, column);
  }
}

template <class Out, bool Nested>
cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  const dim3 grid(grid_of(blocks_over(problem.n, warps)),
                  grid_of(blocks_over(problem.m, rows_per_warp)));
  simple<Out, Nested><<<grid, warps * 32, 0, stream>>>(
      problem.codes, ScalesOf<Nested>(problem), table_of(problem),
      static_cast<const Out*>(problem.input), static_cast<const Out*>(problem.bias),
      static_cast<Out*>(problem.output), problem.m, problem.n, problem.k);
  return cudaGetLastError();
}

Support supports(const Problem& problem) {
  constexpr std::int64_t max_in_y = 65535;
  if (problem.m > max_in_y * rows_per_warp || blocks_over(problem.n, warps) > max_blocks) {
    return Support::no("a grid has blocks for 524280 rows and 2^34 outputs at most");
  }
  if (problem.k > std::int64_t{1} << 30) return Support::no("needs k up to 2^30");
  return Support::yes();
}

const Register<Problem> registered{{
    .name = "simple",
    .lineage = "ours",
    .contract = WithinBound{"multiplies by the weights that dequantization writes; adds in fp32",
                            dequantized_weights, true},
    .supports = supports,
    .launch =
        [](const Problem& problem, cudaStream_t stream) {
          if (problem.m == 0 || problem.n == 0) return cudaSuccess;
          return with_types(problem, [&]<class Out, bool Nested>() {
            return launch<Out, Nested>(problem, stream);
          });
        },
}};

}  // namespace
}  // namespace reprolab::nf4_product
