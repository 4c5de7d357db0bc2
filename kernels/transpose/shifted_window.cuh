// A tile for rows of any alignment. A window is 32 elements of an output row and starts at a
// multiple of 32 bytes, which may be a different column in each row: so memory is written in whole
// units of 32 bytes. A block reads 64 columns of the input and writes a window of each, 16 bytes at
// a time. For the shifts it loads 7 rows more than a window has; a neighbouring block loads those
// rows as well.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/definition.hpp"
#include "kernels/transpose/problem.hpp"
#include "kernels/transpose/tiles.hpp"

namespace reprolab::transpose::shifted {

inline constexpr int window = 32;                 // elements of an output row that a block writes
inline constexpr int columns = 64;                // of input, so rows of output, per block
inline constexpr int unit = 8;                    // elements in 32 bytes
inline constexpr int height = window + unit - 1;  // rows of input that a block loads
inline constexpr int pitch = columns + 1;  // of shared memory; odd, so a column hits all banks
inline constexpr int threads = 256;

/// Number of windows that cover a row of `length` elements, whatever its alignment.
constexpr std::uint32_t windows_over(std::int64_t length) {
  return length == 0 ? 0 : tiles_over(length + unit - 1, window);
}

/// Number of elements by which window `index` of a row starts before `index * window`, if element 0
/// of that row is at the address `row_start`.
constexpr int shift_of(std::uintptr_t row_start) {
  return static_cast<int>(row_start / sizeof(float) % unit);
}

template <class Order, class Access>
__global__ void __launch_bounds__(threads) shifted_window(Problem problem) {
  __shared__ float tile[height * pitch];
  const Tile place =
      Order::tile(blockIdx.x, windows_over(problem.rows), tiles_over(problem.columns, columns));
  const std::int64_t first_column = std::int64_t{place.column} * columns;
  const std::int64_t unshifted = std::int64_t{place.row} * window;  // start of a window
  const std::int64_t first_row = unshifted - (unit - 1);
  const Access access;

  // The tile's rows that lie inside the matrix, and the number of columns left in the matrix.
  const int begin = place.row == 0 ? unit - 1 : 0;
  const int end = static_cast<int>(min(std::int64_t{height}, problem.rows - first_row));
  const int columns_left =
      static_cast<int>(min(std::int64_t{columns}, problem.columns - first_column));

  constexpr int step = threads / columns, loads = (height + step - 1) / step;
  const int column = threadIdx.x % columns, first = threadIdx.x / columns;
  const float* const from =
      problem.input + (first_row + first) * problem.in_stride + first_column + column;
  float loaded[loads];  // all loads come before the first use, so all are in flight at once
#pragma unroll
  for (int i = 0; i < loads; ++i) {
    const int row = first + i * step;
    if (row >= begin && row < end && column < columns_left) {
      loaded[i] = access.load(from + i * step * problem.in_stride);
    }
  }
#pragma unroll
  for (int i = 0; i < loads; ++i) {
    if (first + i * step < height) tile[(first + i * step) * pitch + column] = loaded[i];
  }
  __syncthreads();

  constexpr int lanes = window / 4, stores = columns * lanes / threads;
#pragma unroll
  for (int i = 0; i < stores; ++i) {
    const int out_row = threadIdx.x / lanes + i * (threads / lanes);
    if (out_row >= columns_left) break;
    float* const row = problem.output + (first_column + out_row) * problem.out_stride;
    const int in_window = threadIdx.x % lanes * 4 - shift_of(reinterpret_cast<std::uintptr_t>(row));
    const std::int64_t start = unshifted + in_window;
    const float* const values = tile + (unit - 1 + in_window) * pitch + out_row;
    if (start >= 0 && start + 4 <= problem.rows) {
      access.store(reinterpret_cast<float4*>(row + start),
                   make_float4(values[0], values[pitch], values[2 * pitch], values[3 * pitch]));
      continue;
    }
    for (int k = 0; k < 4; ++k) {
      if (start + k >= 0 && start + k < problem.rows) {
        access.store(row + start + k, values[k * pitch]);
      }
    }
  }
}

template <class Order, class Access>
cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  const std::int64_t blocks =
      std::int64_t{windows_over(problem.rows)} * tiles_over(problem.columns, columns);
  if (blocks == 0) return cudaSuccess;
  shifted_window<Order, Access><<<grid_of(blocks), threads, 0, stream>>>(problem);
  return cudaGetLastError();
}

}  // namespace reprolab::transpose::shifted
