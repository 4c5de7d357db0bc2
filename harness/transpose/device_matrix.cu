#include "harness/transpose/device_matrix.hpp"
#include "profiling/cuda_check.hpp"

namespace reprolab::transpose {
namespace {

constexpr int threads = 256;
constexpr unsigned blocks = 8192;  // more than enough to fill any GPU

/// Fills one array. If `transposed`, its rows are the columns of the matrix of the values.
__global__ void fill(std::uint32_t* array, reference::MatrixShape shape, bool transposed, Data data,
                     std::int64_t columns, std::uint64_t seed, std::int64_t elements) {
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < elements; i += step) {
    const std::int64_t row = i / shape.stride, column = i % shape.stride;
    array[i] = column >= shape.columns ? gap_bits
               : transposed            ? value_bits(data, columns, column, row, seed)
                                       : value_bits(data, columns, row, column, seed);
  }
}

void launch(std::uint32_t* array, const reference::MatrixShape& shape, bool transposed,
            const MatrixSpec& spec, std::uint64_t seed, cudaStream_t stream) {
  if (shape.elements() == 0) return;
  fill<<<blocks, threads, 0, stream>>>(array, shape, transposed, spec.data, spec.columns, seed,
                                       shape.elements());
  profiling::check(cudaGetLastError(), "filling a matrix");
}

}  // namespace

void fill_input(std::uint32_t* input, const MatrixSpec& spec, std::uint64_t seed,
                cudaStream_t stream) {
  launch(input, spec.input(), false, spec, seed, stream);
}

void fill_expected(std::uint32_t* expected, const MatrixSpec& spec, std::uint64_t seed,
                   cudaStream_t stream) {
  launch(expected, spec.output(), true, spec, seed, stream);
}

}  // namespace reprolab::transpose
