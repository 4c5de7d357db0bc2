// Whether the library was built for a device.
#include "reprolab_nf4/csrc/calls.hpp"

namespace reprolab::dropin {
namespace {
__global__ void nothing() {}
}  // namespace

cudaError_t has_code() {
  cudaFuncAttributes attributes{};
  const auto error = cudaFuncGetAttributes(&attributes, nothing);
  cudaGetLastError();
  return error;
}

}  // namespace reprolab::dropin
