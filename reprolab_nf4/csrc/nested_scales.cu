#include "reprolab_nf4/csrc/nested_scales.hpp"

#include "kernels/grid.hpp"
#include "kernels/nf4/format.hpp"

namespace reprolab::dropin {
namespace {

constexpr int threads = 256;

__global__ void __launch_bounds__(threads)
    decode(const std::uint8_t* codes, const float* map, const float* absmax, const float* offset,
           float* scales, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (i < count) {
    scales[i] = nf4::nested_scale(map[codes[i]], absmax[i / scales_per_second], *offset);
  }
}

}  // namespace

cudaError_t decode_nested_scales(const std::uint8_t* codes, const float* map, const float* absmax,
                                 const float* offset, float* scales, std::int64_t count,
                                 cudaStream_t stream) {
  decode<<<grid_of(blocks_over(count, threads)), threads, 0, stream>>>(codes, map, absmax, offset,
                                                                       scales, count);
  return cudaGetLastError();
}

cudaError_t has_code() {
  cudaFuncAttributes attributes{};
  const auto error = cudaFuncGetAttributes(&attributes, decode);
  cudaGetLastError();
  return error;
}

}  // namespace reprolab::dropin
