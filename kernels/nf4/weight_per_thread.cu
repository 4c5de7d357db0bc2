// The naive kernel: one thread per weight, one 16-bit store.
//
// Source: D. Robertson's post, where its path starts: each weight on its own, before packed stores.
//         The path goes on with scalar_store, packed_store, tiled_packed, warp_per_block and
//         packed_512.
// Bound:  latency: every weight waits for a load of its byte and one of its scale.
// Alone:  make bench KERNEL=weight_per_thread
#include "kernels/nf4/constant_table.cuh"
#include "kernels/nf4/scales.hpp"
#include "kernels/nf4/support.hpp"

namespace reprolab::nf4 {
namespace {

constexpr int threads = 256;

template <class Index, class ScaleReader, class Out>
__global__ void __launch_bounds__(threads)
    weight_per_thread(const std::uint8_t* __restrict__ codes, const ScaleReader scales,
                      Out* __restrict__ output, const Index n) {
  __shared__ float table[16];
  if (threadIdx.x < 16) table[threadIdx.x] = constant_table.entry[threadIdx.x];
  __syncthreads();

  const Index weight = static_cast<Index>(blockIdx.x) * threads + threadIdx.x;
  if (weight >= n) return;
  const std::uint8_t byte = codes[weight / 2];
  const unsigned code = weight % 2 == 0 ? first_code(byte) : second_code(byte);
  output[weight] = round_to<Out>(scaled(table[code], scales.at(weight)));
}

cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  const std::int64_t blocks = blocks_over(problem.n, threads);
  if (blocks == 0) return cudaSuccess;
  return with_problem_types(problem, [&]<class Index, class ScaleReader, class Out>() {
    weight_per_thread<<<grid_of(blocks), threads, 0, stream>>>(problem.codes, ScaleReader(problem),
                                                               static_cast<Out*>(problem.output),
                                                               static_cast<Index>(problem.n));
    return cudaGetLastError();
  });
}

const Register<Problem> registered{{
    .name = "weight_per_thread",
    .lineage = "D. Robertson's post: one weight per thread",
    .supports = supports_standard_table,
    .launch = launch,
}};

}  // namespace
}  // namespace reprolab::nf4
