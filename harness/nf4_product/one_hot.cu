#include "harness/device_compare.hpp"
#include "harness/nf4_product/one_hot.hpp"
#include "kernels/grid.hpp"
#include "profiling/cuda_check.hpp"
#include "reference/ulps.hpp"

namespace reprolab::nf4_product {
namespace {

constexpr int threads = 256;

/// Row i has its 1 in column first + i, and had it m columns before.
__global__ void move_ones(std::uint16_t* input, std::int64_t m, std::int64_t k, std::int64_t first,
                          std::uint16_t one) {
  const std::int64_t row = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (row >= m) return;
  if (first >= m) input[row * k + first - m + row] = 0;
  if (first + row < k) input[row * k + first + row] = one;
}

struct Found {
  unsigned long long weights;
  std::uint32_t max_ulps;
};

/// A thread per output: row i of the output is column first + i of the weights.
__global__ void compare_columns(const std::uint16_t* output, const std::uint16_t* weights,
                                std::int64_t columns, std::int64_t n, std::int64_t k,
                                std::int64_t first, std::uint16_t infinity, Found* found) {
  const std::int64_t at = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (at >= columns * n) return;
  const std::int64_t column = at % columns, row = at / columns;  // neighbours read one row
  const std::uint32_t ulps = reference::distance_in_ulps<std::uint16_t>(
      output[column * n + row], weights[row * k + first + column], infinity);
  if (ulps == 0) return;
  atomicAdd(&found->weights, 1ull);
  atomicMax(&found->max_ulps, ulps);
}

}  // namespace

WeightDifferences compare_weights(const Columns& of, const std::function<void()>& launch,
                                  cudaStream_t stream) {
  const bool is_fp16 = of.type == nf4::OutputType::fp16;
  const std::uint16_t one = is_fp16 ? 0x3c00 : 0x3f80, infinity = is_fp16 ? 0x7c00 : 0x7f80;
  const auto elements = [](std::int64_t count) { return 2 * static_cast<std::size_t>(count); };
  const profiling::DeviceBuffer found(sizeof(Found));
  const auto clear = [&](void* memory, int byte, std::size_t bytes) {
    profiling::check(cudaMemsetAsync(memory, byte, bytes, stream), "asking for weights");
  };
  clear(found.data(), 0, sizeof(Found));
  clear(of.input, 0, elements(of.m * of.k));
  for (std::int64_t first = 0; first < of.k; first += of.m) {
    clear(of.output, poison_byte, elements(of.m * of.n));
    move_ones<<<grid_of(blocks_over(of.m, threads)), threads, 0, stream>>>(
        static_cast<std::uint16_t*>(of.input), of.m, of.k, first, one);
    launch();
    const std::int64_t columns = std::min(of.m, of.k - first);
    compare_columns<<<grid_of(blocks_over(columns * of.n, threads)), threads, 0, stream>>>(
        static_cast<const std::uint16_t*>(of.output), static_cast<const std::uint16_t*>(of.weights),
        columns, of.n, of.k, first, infinity, found.as<Found>());
    profiling::check(cudaGetLastError(), "comparing weights on the GPU");
  }
  Found result{};
  profiling::check(
      cudaMemcpyAsync(&result, found.data(), sizeof(Found), cudaMemcpyDeviceToHost, stream),
      "comparing weights on the GPU");
  profiling::check(cudaStreamSynchronize(stream), "comparing weights on the GPU");
  return {static_cast<std::int64_t>(result.weights), result.max_ulps};
}

}  // namespace reprolab::nf4_product
