#include "kernels/device.hpp"

#include <map>
#include <utility>

namespace reprolab {

bool is_compiled_for(int capability, const void* kernel) {
  thread_local std::map<std::pair<const void*, int>, int> known;
  int device = 0;
  if (cudaGetDevice(&device) == cudaSuccess) {
    const auto found = known.find({kernel, device});
    if (found != known.end()) return found->second >= capability;
    cudaFuncAttributes compiled{};
    if (cudaFuncGetAttributes(&compiled, kernel) == cudaSuccess) {
      known[{kernel, device}] = compiled.ptxVersion;
      return compiled.ptxVersion >= capability;
    }
  }
  cudaGetLastError();
  return false;
}

}  // namespace reprolab
