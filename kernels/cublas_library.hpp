// cuBLAS, loaded on demand: the version that this is compiled for, from the loader's search path,
// else the toolkit's, which CMake names in REPROLAB_CUBLAS_LIBRARY.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <initializer_list>
#include <string>

#include "kernels/dynamic_library.hpp"

namespace reprolab {

/// cublasGemmEx, whose type is written out because the header overloads it.
using CublasGemmEx = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int,
                                        int, int, const void*, const void*, cudaDataType, int,
                                        const void*, cudaDataType, int, const void*, void*,
                                        cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t);

/// A handle for the device that is current when it is made. Lives as long as the process.
struct CublasHandle {
  cublasHandle_t handle = nullptr;
  decltype(&cublasGetStatusString) status_string = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  std::string why_not;  ///< Empty if there is a handle and all functions that were asked for.

  /// Binds `more` functions of the library.
  explicit CublasHandle(std::initializer_list<DynamicLibrary::Symbol> more);

  /// Records the error if the handle could not be made or set up.
  void check(cublasStatus_t status) {
    if (status != CUBLAS_STATUS_SUCCESS) why_not = status_string(status);
  }
};

/// "cuBLAS 13.1"
inline std::string cublas_maker() {
  return "cuBLAS " + std::to_string(CUBLAS_VER_MAJOR) + "." + std::to_string(CUBLAS_VER_MINOR);
}

/// The launch's status: the CUDA runtime's last error, else the library's status.
cudaError_t launch_error(cublasStatus_t status);

}  // namespace reprolab
