// Product kernels with one planted fault each, and sound ones. One thread per output, plain scales.
#include <cuda_runtime.h>

#include "kernels/grid.hpp"
#include "kernels/nf4/format.hpp"
#include "kernels/nf4_product/problem.hpp"
#include "kernels/nf4_product/readings.hpp"
#include "tests/kernels/register_all.hpp"

namespace reprolab::nf4_product {
namespace {

constexpr int threads = 128, parts = 32;

enum class Fault {
  none,
  dropped_step,  ///< The last 16 inputs of a row.
  wrong_scale,   ///< One block of the third output has its neighbour's.
  sums_in_16_bits,
  bias_twice,
  other_weights,    ///< Rounded entries, scaled in fp32.
  depends_on_batch  ///< Sums the other way round if there are several rows.
};

struct Product {
  const std::uint8_t* codes;
  const float* absmax;
  const __half *input, *bias;
  __half* output;
  float* sums;
  std::int64_t m, n, k;
  int block_size;
};

template <Fault fault>
__device__ float term(const Product& product, std::int64_t i, std::int64_t j, std::int64_t l) {
  const std::int64_t at = j * product.k + l;
  std::int64_t block = at / product.block_size;
  if (fault == Fault::wrong_scale && j == 2 && l / product.block_size == 1) --block;
  const std::uint8_t byte = product.codes[at / 2];
  const float entry = nf4::table_entry(at % 2 == 0 ? byte >> 4 : byte & 15);
  const float scale = product.absmax[block], input = __half2float(product.input[i * product.k + l]);
  if (fault == Fault::other_weights) return __half2float(__float2half_rn(entry)) * scale * input;
  return __half2float(__float2half_rn(nf4::scaled(entry, scale))) * input;
}

template <Fault fault>
__global__ void multiply(const Product product) {
  const std::int64_t at = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (at >= product.m * product.n) return;
  const std::int64_t i = at / product.n, j = at % product.n;
  const std::int64_t k = fault == Fault::dropped_step ? product.k - 16 : product.k;
  float sum = 0;
  for (std::int64_t l = 0; l < k; ++l) {
    const bool reversed = fault == Fault::depends_on_batch && product.m > 1;
    sum += term<fault>(product, i, j, reversed ? k - 1 - l : l);
    if (fault == Fault::sums_in_16_bits) sum = __half2float(__float2half_rn(sum));
  }
  if (product.bias != nullptr) {
    const float bias = __half2float(product.bias[j]);
    sum += fault == Fault::bias_twice ? 2 * bias : bias;
  }
  product.output[at] = __float2half_rn(sum);
}

/// One block in y per part of the inputs, which are added in memory: one after the other, or as it
/// happens, with or without atomic additions.
template <bool atomic>
__global__ void add_parts(const Product product) {
  const std::int64_t at = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (at >= product.m * product.n) return;
  const std::int64_t begin = product.k * blockIdx.y / parts,
                     end = product.k * (blockIdx.y + 1) / parts;
  float sum = 0;
  for (std::int64_t l = begin; l < end; ++l) {
    sum += term<Fault::none>(product, at / product.n, at % product.n, l);
  }
  if (atomic) {
    atomicAdd(product.sums + at, sum);
  } else {
    volatile float* const place = product.sums + at;
    *place = *place + sum;
  }
}

__global__ void write_sums(const Product product) {
  const std::int64_t at = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (at >= product.m * product.n) return;
  product.output[at] = __float2half_rn(product.sums[at]);
}

__global__ void write_behind(unsigned char* end) { *end = 0x5a; }

Product product_of(const Problem& problem) {
  return {problem.codes,
          problem.absmax,
          static_cast<const __half*>(problem.input),
          static_cast<const __half*>(problem.bias),
          static_cast<__half*>(problem.output),
          static_cast<float*>(problem.workspace),
          problem.m,
          problem.n,
          problem.k,
          problem.block_size};
}

unsigned blocks_for(const Problem& problem) {
  return grid_of(blocks_over(problem.m * problem.n, threads));
}

template <Fault fault>
cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  multiply<fault><<<blocks_for(problem), threads, 0, stream>>>(product_of(problem));
  return cudaGetLastError();
}

std::uint64_t sums_bytes(const Problem& problem) {
  return sizeof(float) * static_cast<std::uint64_t>(problem.m * problem.n);
}

template <bool atomic>
cudaError_t launch_parts(const Problem& problem, cudaStream_t stream) {
  const Product product = product_of(problem);
  if (const auto error = cudaMemsetAsync(product.sums, 0, sums_bytes(problem), stream))
    return error;
  add_parts<atomic><<<dim3(blocks_for(problem), parts), threads, 0, stream>>>(product);
  write_sums<<<blocks_for(problem), threads, 0, stream>>>(product);
  return cudaGetLastError();
}

cudaError_t launch_and_write_behind(const Problem& problem, cudaStream_t stream) {
  write_behind<<<1, 1, 0, stream>>>(static_cast<unsigned char*>(problem.workspace) +
                                    sums_bytes(problem));
  return launch<Fault::none>(problem, stream);
}

Kernel<Problem> like(bool has_sums) {
  Kernel<Problem> kernel{
      .source_file = "tests/kernels/nf4_product/faulty_kernels.cu",
      .contract = WithinBound{"adds in fp32, in order", dequantized_weights, true},
      .supports = [](const Problem& problem) {
        const bool ok = problem.type == nf4::OutputType::fp16 && !problem.is_nested();
        return ok ? Support::yes() : Support::no("a test's kernel: fp16, plain scales");
      }};
  if (has_sums) kernel.workspace_bytes = sums_bytes;
  return kernel;
}

const RegisterAll<Problem> kernels(like(false),
                                   {{"test_sound", launch<Fault::none>},
                                    {"test_dropped_step", launch<Fault::dropped_step>},
                                    {"test_wrong_scale", launch<Fault::wrong_scale>},
                                    {"test_sums_in_16_bits", launch<Fault::sums_in_16_bits>},
                                    {"test_bias_twice", launch<Fault::bias_twice>},
                                    {"test_other_weights", launch<Fault::other_weights>},
                                    {"test_depends_on_batch", launch<Fault::depends_on_batch>}});
const RegisterAll<Problem> with_sums(like(true),
                                     {{"test_race", launch_parts<false>},
                                      {"test_does_not_repeat", launch_parts<true>},
                                      {"test_writes_behind_workspace", launch_and_write_behind}});

}  // namespace
}  // namespace reprolab::nf4_product
