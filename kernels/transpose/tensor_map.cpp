#include "kernels/transpose/tensor_map.hpp"

#include <algorithm>

#include "kernels/device.hpp"
#include "kernels/grid.hpp"
#include "kernels/transpose/support.hpp"
#include "kernels/transpose/swizzle.hpp"
#include "kernels/transpose/tile_order.hpp"

namespace reprolab::transpose {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

/// Looked up in the driver at run time, so that programs also start without a driver.
Encode find_encode() {
  constexpr const char* name = "cuTensorMapEncodeTiled";
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found);
#endif
  if (error != cudaSuccess) cudaGetLastError();
  return error == cudaSuccess ? reinterpret_cast<Encode>(function) : nullptr;
}

Encode encode() {
  static const Encode function = find_encode();
  return function;
}

CUresult describe_matrix(CUtensorMap& map, const float* matrix, std::int64_t rows,
                         std::int64_t columns, std::int64_t stride, CUtensorMapSwizzle swizzle) {
  const cuuint64_t size[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t stride_bytes[] = {static_cast<cuuint64_t>(stride) * sizeof(float)};
  const cuuint32_t box[] = {tma_tile, tma_tile}, element_stride[] = {1, 1};
  return encode()(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, const_cast<float*>(matrix), size,
                  stride_bytes, box, element_stride, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                  CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

}  // namespace

Support tma_support(const Problem& problem) {
  if (compute_capability() < 90) {
    return Support::no("needs the tensor memory accelerator (compute capability 9.0 or newer)");
  }
  if (encode() == nullptr) return Support::no("needs a driver of CUDA 12.0 or newer");
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
  if (encode() == nullptr) return cudaErrorNotSupported;
  arguments.tile_columns = tiles_over(problem.columns, tma_tile);
  const bool described = describe_matrix(arguments.in, problem.input, problem.rows, problem.columns,
                                         problem.in_stride, swizzle) == CUDA_SUCCESS &&
                         describe_matrix(arguments.out, problem.output, problem.columns,
                                         problem.rows, problem.out_stride, swizzle) == CUDA_SUCCESS;
  return described ? cudaSuccess : cudaErrorInvalidValue;
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
