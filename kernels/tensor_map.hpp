// Descriptions of matrices from which the tensor memory accelerator of compute capability 9.0
// copies tiles. CUDA Driver API, cuTensorMapEncodeTiled.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace reprolab {

using EncodeTensorMap = decltype(&cuTensorMapEncodeTiled);

/// Looked up in the driver at run time, so that programs also start without a driver; null where
/// the driver is older than CUDA 12.0.
inline EncodeTensorMap tensor_map_encoder() {
  static const EncodeTensorMap function = []() -> EncodeTensorMap {
    constexpr const char* name = "cuTensorMapEncodeTiled";
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result);
#else
    const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
    if (error != cudaSuccess) cudaGetLastError();
    return error == cudaSuccess ? reinterpret_cast<EncodeTensorMap>(found) : nullptr;
  }();
  return function;
}

/// A row-major matrix and the tile of a copy. Elements past the matrix are zero.
struct TiledMatrix {
  CUtensorMapDataType type;
  const void* first;  ///< Aligned to 16 bytes.
  std::int64_t rows, columns;
  std::int64_t stride_bytes;  ///< From row to row: a multiple of 16, less than 2^40.
  unsigned tile_rows, tile_columns;
  CUtensorMapSwizzle swizzle;
  /// If not 0, a copy takes this many consecutive tiles of a row and writes them one after the
  /// other. The matrix then consists of whole tiles of columns, whose bytes are a multiple of 16; a
  /// copy starts at (0, 0, number of a tile) of (column, row, tile).
  unsigned copied_tiles = 0;
  std::int64_t tile_bytes = 0;
};

/// cudaErrorNotSupported if the driver has no tensor maps, cudaErrorInvalidValue if it cannot
/// describe the matrix.
inline cudaError_t describe(const TiledMatrix& matrix, CUtensorMap& map) {
  const EncodeTensorMap encode = tensor_map_encoder();
  if (encode == nullptr) return cudaErrorNotSupported;
  const bool is_cut = matrix.copied_tiles > 0;
  const auto columns = static_cast<cuuint64_t>(matrix.columns);
  const cuuint64_t size[] = {is_cut ? matrix.tile_columns : columns,
                             static_cast<cuuint64_t>(matrix.rows), columns / matrix.tile_columns};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(matrix.stride_bytes),
                                static_cast<cuuint64_t>(matrix.tile_bytes)};
  const cuuint32_t tile[] = {matrix.tile_columns, matrix.tile_rows, matrix.copied_tiles};
  const cuuint32_t element_strides[] = {1, 1, 1};
  const CUresult result =
      encode(&map, matrix.type, is_cut ? 3 : 2, const_cast<void*>(matrix.first), size, strides,
             tile, element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, matrix.swizzle,
             CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace reprolab
