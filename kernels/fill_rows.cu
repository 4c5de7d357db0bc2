#include "kernels/fill_rows.hpp"
#include "kernels/grid.hpp"

namespace reprolab {
namespace {

constexpr int threads = 256;

__global__ void copy_to_rows(const std::uint16_t* row, std::uint16_t* matrix, std::int64_t rows,
                             std::int64_t columns) {
  const std::int64_t at = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (at < rows * columns) matrix[at] = row[at % columns];
}

}  // namespace

cudaError_t fill_rows(const void* row, void* matrix, std::int64_t rows, std::int64_t columns,
                      cudaStream_t stream) {
  if (rows == 0 || columns == 0) return cudaSuccess;
  copy_to_rows<<<grid_of(blocks_over(rows * columns, threads)), threads, 0, stream>>>(
      static_cast<const std::uint16_t*>(row), static_cast<std::uint16_t*>(matrix), rows, columns);
  return cudaGetLastError();
}

}  // namespace reprolab
