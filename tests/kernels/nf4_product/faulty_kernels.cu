// Product kernels with one planted fault each, and sound ones. One thread per output, plain scales.
#include <cuda_runtime.h>

#include "kernels/definition.hpp"
#include "kernels/nf4/format.hpp"
#include "kernels/nf4_product/problem.hpp"
#include "tests/kernels/register_all.hpp"

namespace reprolab::nf4_product {
namespace {

constexpr int threads = 128, slices = 32;

enum class Fault {
  none,
  other_weights,    ///< Rounded entries, scaled in fp32.
  depends_on_batch  ///< Sums in reverse order if there are several rows.
};

__host__ __device__ float* sums_of(const Problem& problem) {
  return static_cast<float*>(problem.workspace);
}

template <Fault fault>
__device__ float term(const Problem& problem, std::int64_t i, std::int64_t j, std::int64_t l) {
  const std::int64_t at = j * problem.k + l;
  const std::uint8_t byte = problem.codes[at / 2];
  const float entry = nf4::table_entry(at % 2 == 0 ? byte >> 4 : byte & 15);
  const float scale = problem.absmax[at / problem.block_size];
  const float input = __half2float(static_cast<const __half*>(problem.input)[i * problem.k + l]);
  if (fault == Fault::other_weights) return __half2float(__float2half_rn(entry)) * scale * input;
  return __half2float(__float2half_rn(nf4::scaled(entry, scale))) * input;
}

template <Fault fault>
__global__ void multiply(const Problem problem) {
  const std::int64_t at = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (at >= problem.m * problem.n) return;
  const std::int64_t i = at / problem.n, j = at % problem.n;
  float sum = 0;
  for (std::int64_t l = 0; l < problem.k; ++l) {
    const bool reversed = fault == Fault::depends_on_batch && problem.m > 1;
    sum += term<fault>(problem, i, j, reversed ? problem.k - 1 - l : l);
  }
  if (problem.bias != nullptr) sum += __half2float(static_cast<const __half*>(problem.bias)[j]);
  static_cast<__half*>(problem.output)[at] = __float2half_rn(sum);
}

/// One block in y per slice of K; slices are added in memory, in any order.
__global__ void add_slices(const Problem problem) {
  const std::int64_t at = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (at >= problem.m * problem.n) return;
  const std::int64_t begin = problem.k * blockIdx.y / slices,
                     end = problem.k * (blockIdx.y + 1) / slices;
  float sum = 0;
  for (std::int64_t l = begin; l < end; ++l) {
    sum += term<Fault::none>(problem, at / problem.n, at % problem.n, l);
  }
  atomicAdd(sums_of(problem) + at, sum);
}

__global__ void write_sums(const Problem problem) {
  const std::int64_t at = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (at >= problem.m * problem.n) return;
  static_cast<__half*>(problem.output)[at] = __float2half_rn(sums_of(problem)[at]);
}

__global__ void write_byte(unsigned char* to) { *to = 0x5a; }

unsigned blocks_for(const Problem& problem) {
  return grid_of(blocks_over(problem.m * problem.n, threads));
}

template <Fault fault>
cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  multiply<fault><<<blocks_for(problem), threads, 0, stream>>>(problem);
  return cudaGetLastError();
}

std::uint64_t sums_bytes(const Problem& problem) {
  return sizeof(float) * static_cast<std::uint64_t>(problem.m * problem.n);
}

cudaError_t launch_slices(const Problem& problem, cudaStream_t stream) {
  if (const auto error = cudaMemsetAsync(sums_of(problem), 0, sums_bytes(problem), stream))
    return error;
  add_slices<<<dim3(blocks_for(problem), slices), threads, 0, stream>>>(problem);
  write_sums<<<blocks_for(problem), threads, 0, stream>>>(problem);
  return cudaGetLastError();
}

cudaError_t launch_and_write_past_end(const Problem& problem, cudaStream_t stream) {
  write_byte<<<1, 1, 0, stream>>>(static_cast<unsigned char*>(problem.workspace) +
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
                                    {"test_other_weights", launch<Fault::other_weights>},
                                    {"test_depends_on_batch", launch<Fault::depends_on_batch>}});
const RegisterAll<Problem> with_sums(like(true),
                                     {{"test_does_not_repeat", launch_slices},
                                      {"test_writes_past_workspace", launch_and_write_past_end}});

}  // namespace
}  // namespace reprolab::nf4_product
