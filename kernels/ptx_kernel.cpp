#include "kernels/ptx_kernel.hpp"

#include <vector>

#include "kernels/grid.hpp"

namespace reprolab {
namespace {

/// 90 for compute capability 9.0; 0 if there is no GPU.
int compute_capability() {
  int device = 0, major = 0, minor = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return 10 * major + minor;
}

}  // namespace

LoadedPtx::LoadedPtx(PtxKernel kernel) : kernel_(std::move(kernel)) {
  for (const auto& [capability, variants] : kernel_.variants) {
    for (const auto& [name, variant] : variants) {
      functions_.try_emplace({capability, name}, variant.file, variant.entry);
    }
  }
}

Support LoadedPtx::supports(const std::string& variant) {
  const int capability = compute_capability();
  if (capability == 0) return Support::no("needs a GPU");
  const auto function = functions_.find({capability, variant});
  if (function == functions_.end()) {
    const std::string arch = std::to_string(capability);
    return Support::no("is not compiled for sm_" + arch + "; make " + kernel_.language +
                       " ARCH=" + arch);
  }
  // Makes the device's context current, into which the driver loads.
  if (const cudaError_t error = cudaFree(nullptr); error != cudaSuccess) {
    cudaGetLastError();
    return Support::no(std::string("has no context to be loaded into: ") +
                       cudaGetErrorString(error));
  }
  const std::string& why_not = function->second.load(ModuleDriver::installed());
  return why_not.empty() ? Support::yes() : Support::no(why_not);
}

cudaError_t LoadedPtx::launch(const std::string& variant, std::int64_t blocks,
                              std::span<void* const> arguments, cudaStream_t stream) {
  const int capability = compute_capability();
  const auto function = functions_.find({capability, variant});
  if (function == functions_.end()) return cudaErrorNotSupported;
  const PtxVariant& compiled = kernel_.variants.at(capability).at(variant);
  const void* null = nullptr;
  std::vector<void*> all(arguments.begin(), arguments.end());
  all.resize(all.size() + static_cast<std::size_t>(compiled.null_pointers), &null);
  return function->second.launch(ModuleDriver::installed(),
                                 {grid_of(blocks), kernel_.threads, compiled.shared_bytes},
                                 all.data(), stream);
}

}  // namespace reprolab
