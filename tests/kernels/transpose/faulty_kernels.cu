// Transpose kernels with one planted fault each, to test that wrong kernels are detected. One
// element per thread, any matrix. Their names begin with "test_".
#include "kernels/transpose/support.hpp"
#include "tests/kernels/register_all.hpp"

namespace reprolab::transpose {
namespace {

constexpr int threads = 256;

/// No fault; each faulty kernel differs from it in one member. Rows and columns are the output's.
struct Sound {
  __device__ static bool skips(std::int64_t, std::int64_t, const Problem&) { return false; }
  __device__ static std::int64_t column(std::int64_t, std::int64_t column) { return column; }
  __device__ static float value(float value) { return value; }
};

/// Swaps the first two elements of the output's first row.
struct SwapsTwo : Sound {
  __device__ static std::int64_t column(std::int64_t row, std::int64_t column) {
    return row == 0 && column < 2 ? 1 - column : column;
  }
};

struct SkipsLastColumn : Sound {
  __device__ static bool skips(std::int64_t, std::int64_t column, const Problem& problem) {
    return column == problem.rows - 1;
  }
};

/// Does not write the second tile of 32 x 32 in both directions.
struct SkipsTile : Sound {
  __device__ static bool skips(std::int64_t row, std::int64_t column, const Problem&) {
    return row / 32 == 1 && column / 32 == 1;
  }
};

/// The same numbers, but not the same bits: -0.0 becomes 0.0, and NaNs lose their payloads.
struct AddsZero : Sound {
  __device__ static float value(float value) { return value + 0.0f; }
};

template <class Fault>
__global__ void transpose(const Problem problem) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= problem.rows * problem.columns) return;
  const std::int64_t row = i / problem.rows, column = i % problem.rows;
  if (Fault::skips(row, column, problem)) return;
  problem.output[row * problem.out_stride + Fault::column(row, column)] =
      Fault::value(problem.input[column * problem.in_stride + row]);
}

template <class Fault>
cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  const auto blocks =
      static_cast<unsigned>((problem.rows * problem.columns + threads - 1) / threads);
  transpose<Fault><<<blocks, threads, 0, stream>>>(problem);
  return cudaGetLastError();
}

__global__ void write(float* to) { *to = 1.0f; }

/// Writes the transpose, and then one element, `at(problem)` elements from the output's start.
template <std::int64_t at(const Problem&)>
cudaError_t launch_and_write(const Problem& problem, cudaStream_t stream) {
  const cudaError_t status = launch<Sound>(problem, stream);
  write<<<1, 1, 0, stream>>>(problem.output + at(problem));
  return status;
}

std::int64_t before(const Problem&) { return -1; }
std::int64_t after_first_row(const Problem& problem) { return problem.rows; }
std::int64_t past_end(const Problem& problem) {
  return (problem.columns - 1) * problem.out_stride + problem.rows;
}

const RegisterAll<Problem> kernels({.source_file = "tests/kernels/transpose/faulty_kernels.cu",
                                    .supports = supports_tiles},
                                   {{"test_sound", launch<Sound>},
                                    {"test_swaps_two", launch<SwapsTwo>},
                                    {"test_skips_last_column", launch<SkipsLastColumn>},
                                    {"test_skips_tile", launch<SkipsTile>},
                                    {"test_adds_zero", launch<AddsZero>},
                                    {"test_writes_to_gap", launch_and_write<after_first_row>},
                                    {"test_writes_past_end", launch_and_write<past_end>},
                                    {"test_writes_before", launch_and_write<before>}});

}  // namespace
}  // namespace reprolab::transpose
