#include "kernels/ptx_kernel.hpp"

#include <array>
#include <fstream>
#include <iterator>
#include <vector>

#include "kernels/device.hpp"
#include "kernels/dynamic_library.hpp"
#include "kernels/printable.hpp"

namespace reprolab {
namespace {

/// Functions of this machine's driver. Source: CUDA Driver API, modules and execution.
struct Driver {
  decltype(&cuModuleLoadDataEx) load = nullptr;
  decltype(&cuModuleGetFunction) function = nullptr;
  decltype(&cuLaunchKernel) launch = nullptr;
  std::string why_not;

  Driver() {
    const auto library = DynamicLibrary::open({"libcuda.so.1"}, &why_not);
    if (!library) return;
    const std::string missing = library->bind({{load, "cuModuleLoadDataEx"},
                                               {function, "cuModuleGetFunction"},
                                               {launch, "cuLaunchKernel"}});
    if (!missing.empty()) why_not = "libcuda.so.1 lacks " + missing;
  }
};

const Driver& driver() {
  static const Driver loaded;
  return loaded;
}

/// Sets `function`. Returns "", or the reason for a failure.
std::string load(const PtxVariant& variant, CUfunction& function) {
  if (!driver().why_not.empty()) return "the CUDA driver cannot be loaded: " + driver().why_not;
  std::ifstream in(variant.file, std::ios::binary);
  const std::string ptx{std::istreambuf_iterator<char>(in), {}};
  if (!in || ptx.empty()) return "cannot be read";
  std::array<char, 1024> log{};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  // The driver takes the size as a number in place of a pointer.
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size() - 1)};
  CUmodule module = nullptr;
  if (const CUresult result = driver().load(&module, ptx.c_str(), 2, options, values);
      result != CUDA_SUCCESS) {
    const std::string said = log.data();
    return "the driver refuses it (error " + std::to_string(result) + ")" +
           (said.empty() ? "" : ": " + said.substr(0, said.find('\n')));
  }
  if (driver().function(&function, module, variant.entry.c_str()) != CUDA_SUCCESS) {
    function = nullptr;
    return "has no kernel '" + variant.entry + "'";
  }
  return "";
}

}  // namespace

LoadedPtx::LoadedPtx(const PtxKernel& kernel)
    : language_(kernel.language), threads_(kernel.threads) {
  for (const auto& [capability, variants] : kernel.variants) {
    for (const auto& [name, variant] : variants) variants_[{capability, name}] = {variant};
  }
}

LoadedPtx::Loaded* LoadedPtx::loaded(const std::string& variant) {
  const auto found = variants_.find({compute_capability(), variant});
  if (found == variants_.end()) return nullptr;
  Loaded& loaded = found->second;
  if (loaded.function == nullptr && loaded.why_not.empty()) {
    const std::string why_not = load(loaded.variant, loaded.function);
    if (!why_not.empty()) loaded.why_not = printable(loaded.variant.file + ": " + why_not);
  }
  return &loaded;
}

Support LoadedPtx::supports(const std::string& variant) {
  const int capability = compute_capability();
  if (capability == 0) return Support::no("needs a GPU");
  // Makes the device's context current, into which the driver loads.
  if (const cudaError_t error = cudaFree(nullptr); error != cudaSuccess) {
    cudaGetLastError();
    return unsupported(std::string("has no context to be loaded into: ") +
                       cudaGetErrorString(error));
  }
  const Loaded* const found = loaded(variant);
  if (found == nullptr) {
    const std::string arch = std::to_string(capability);
    return unsupported("is not compiled for sm_" + arch + "; make " + language_ + " ARCH=" + arch);
  }
  return found->why_not.empty() ? Support::yes() : unsupported(found->why_not);
}

cudaError_t LoadedPtx::launch(const std::string& variant, std::int64_t blocks,
                              std::span<void* const> arguments, cudaStream_t stream) {
  const Loaded* const found = loaded(variant);
  if (found == nullptr) return cudaErrorNotSupported;
  if (!found->why_not.empty()) return cudaErrorInvalidKernelImage;
  const void* null = nullptr;
  std::vector<void*> all(arguments.begin(), arguments.end());
  all.resize(all.size() + static_cast<std::size_t>(found->variant.null_pointers), &null);
  // The runtime's errors have the driver's numbers (driver_types.h, since CUDA 10.1).
  return static_cast<cudaError_t>(driver().launch(found->function, grid_of(blocks), 1, 1, threads_,
                                                  1, 1, found->variant.shared_bytes, stream,
                                                  all.data(), nullptr));
}

}  // namespace reprolab
