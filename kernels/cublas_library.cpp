#include "kernels/cublas_library.hpp"

namespace reprolab {

CublasHandle::CublasHandle(std::initializer_list<DynamicLibrary::Symbol> more) {
  const auto library = DynamicLibrary::open(
      {"libcublas.so." + std::to_string(CUBLAS_VER_MAJOR), REPROLAB_CUBLAS_LIBRARY}, &why_not);
  if (!library) return;
  decltype(&cublasCreate_v2) create = nullptr;
  std::string missing = library->bind({{create, "cublasCreate_v2"},
                                       {status_string, "cublasGetStatusString"},
                                       {set_stream, "cublasSetStream_v2"}});
  if (missing.empty()) missing = library->bind(more);
  if (!missing.empty()) {
    why_not = "the library lacks " + missing;
    return;
  }
  check(create(&handle));
}

cudaError_t launch_error(cublasStatus_t status) {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) return error;
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return cudaSuccess;
    case CUBLAS_STATUS_INVALID_VALUE:
      return cudaErrorInvalidValue;
    case CUBLAS_STATUS_ARCH_MISMATCH:
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return cudaErrorNotSupported;
    default:
      return cudaErrorUnknown;
  }
}

}  // namespace reprolab
