#include "kernels/transpose/tma_launch.hpp"

#include <algorithm>

#include "kernels/device.hpp"
#include "kernels/grid.hpp"
#include "kernels/tensor_map.hpp"
#include "kernels/transpose/support.hpp"
#include "kernels/transpose/swizzle.hpp"
#include "kernels/transpose/tile_order.hpp"

namespace reprolab::transpose {
namespace {

cudaError_t describe_matrix(CUtensorMap& map, const float* matrix, std::int64_t rows,
                            std::int64_t columns, std::int64_t stride, CUtensorMapSwizzle swizzle) {
  return reprolab::describe({.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                             .first = matrix,
                             .rows = rows,
                             .columns = columns,
                             .stride_bytes = stride * std::int64_t{sizeof(float)},
                             .tile_rows = tma_tile,
                             .tile_columns = tma_tile,
                             .swizzle = swizzle},
                            map);
}

}  // namespace

Support tma_support(const Problem& problem) {
  if (compute_capability() < 90) {
    return Support::no("needs the tensor memory accelerator (compute capability 9.0 or newer)");
  }
  if (tensor_map_encoder() == nullptr) return Support::no("needs a driver of CUDA 12.0 or newer");
  // At the end of a row the accelerator stores up to the next multiple of 16 bytes (seen on an
  // H200), and the memory there does not belong to the matrix.
  if (const Support support = supports_float4s(problem); !support.ok) return support;
  constexpr std::int64_t most = (std::int64_t{1} << 40) / sizeof(float);
  if (std::max(problem.in_stride, problem.out_stride) >= most) {
    return Support::no("needs rows less than 2^40 bytes apart");
  }
  return Support::yes();
}

std::int64_t tma_tiles(const Problem& problem) {
  return std::int64_t{tiles_over(problem.columns, tma_tile)} * tiles_over(problem.rows, tma_tile);
}

cudaError_t describe(const Problem& problem, CUtensorMapSwizzle swizzle, TmaArguments& arguments) {
  arguments.tile_columns = tiles_over(problem.columns, tma_tile);
  const cudaError_t error = describe_matrix(arguments.in, problem.input, problem.rows,
                                            problem.columns, problem.in_stride, swizzle);
  if (error != cudaSuccess) return error;
  return describe_matrix(arguments.out, problem.output, problem.columns, problem.rows,
                         problem.out_stride, swizzle);
}

cudaError_t launch_tma(TmaKernel kernel, int threads, CUtensorMapSwizzle swizzle,
                       const Problem& problem, cudaStream_t stream) {
  const std::int64_t tiles = tma_tiles(problem);
  if (tiles == 0) return cudaSuccess;
  TmaArguments arguments;
  if (const cudaError_t error = describe(problem, swizzle, arguments); error != cudaSuccess) {
    return error;
  }
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(grid_of(tiles)),
                          dim3(static_cast<unsigned>(threads)), arguments.pointers().data(), 0,
                          stream);
}

}  // namespace reprolab::transpose
