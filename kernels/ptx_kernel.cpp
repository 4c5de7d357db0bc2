#include "kernels/ptx_kernel.hpp"

#include <array>
#include <fstream>
#include <iterator>
#include <vector>

#include "kernels/device.hpp"
#include "kernels/dynamic_library.hpp"
#include "kernels/grid.hpp"
#include "kernels/printable.hpp"

namespace reprolab {
namespace {

ModuleDriver find_driver() {
  ModuleDriver driver;
  const auto library = DynamicLibrary::open({"libcuda.so.1"}, &driver.why_not);
  if (!library) return driver;
  const std::string missing = library->bind({{driver.load, "cuModuleLoadDataEx"},
                                             {driver.function, "cuModuleGetFunction"},
                                             {driver.launch, "cuLaunchKernel"}});
  if (!missing.empty()) driver.why_not = "libcuda.so.1 lacks " + missing;
  return driver;
}

}  // namespace

const ModuleDriver& ModuleDriver::installed() {
  static const ModuleDriver driver = find_driver();
  return driver;
}

const std::string& PtxFunction::load(const ModuleDriver& driver) {
  if (!std::exchange(tried_, true)) {
    const std::string why_not = load_now(driver);
    if (!why_not.empty()) why_not_ = printable(variant_.file + ": " + why_not);
  }
  return why_not_;
}

std::string PtxFunction::load_now(const ModuleDriver& driver) {
  if (!driver.why_not.empty()) return "the CUDA driver cannot be loaded: " + driver.why_not;
  std::ifstream in(variant_.file, std::ios::binary);
  const std::string ptx{std::istreambuf_iterator<char>(in), {}};
  if (!in || ptx.empty()) return "cannot be read";
  std::array<char, 1024> log{};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  // The driver takes the size as a number in place of a pointer.
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size() - 1)};
  CUmodule module = nullptr;
  if (const CUresult result = driver.load(&module, ptx.c_str(), 2, options, values);
      result != CUDA_SUCCESS) {
    const std::string said = log.data();
    return "the driver refuses it (error " + std::to_string(result) + ")" +
           (said.empty() ? "" : ": " + said.substr(0, said.find('\n')));
  }
  if (driver.function(&function_, module, variant_.entry.c_str()) != CUDA_SUCCESS) {
    function_ = nullptr;
    return "has no kernel '" + variant_.entry + "'";
  }
  return "";
}

cudaError_t PtxFunction::launch(std::int64_t blocks, std::span<void* const> arguments,
                                cudaStream_t stream, const ModuleDriver& driver) {
  if (!load(driver).empty()) return cudaErrorInvalidKernelImage;
  const void* null = nullptr;
  std::vector<void*> all(arguments.begin(), arguments.end());
  all.resize(all.size() + static_cast<std::size_t>(variant_.null_pointers), &null);
  // The runtime's errors have the driver's numbers (driver_types.h, since CUDA 10.1).
  return static_cast<cudaError_t>(driver.launch(function_, grid_of(blocks), 1, 1, threads_, 1, 1,
                                                variant_.shared_bytes, stream, all.data(),
                                                nullptr));
}

LoadedPtx::LoadedPtx(const PtxKernel& kernel) : language_(kernel.language) {
  for (const auto& [capability, variants] : kernel.variants) {
    for (const auto& [name, variant] : variants) {
      functions_.try_emplace({capability, name}, variant, kernel.threads);
    }
  }
}

Support LoadedPtx::supports(const std::string& variant) {
  const int capability = compute_capability();
  if (capability == 0) return Support::no("needs a GPU");
  const auto function = functions_.find({capability, variant});
  if (function == functions_.end()) {
    const std::string arch = std::to_string(capability);
    return unsupported("is not compiled for sm_" + arch + "; make " + language_ + " ARCH=" + arch);
  }
  // Makes the device's context current, into which the driver loads.
  if (const cudaError_t error = cudaFree(nullptr); error != cudaSuccess) {
    cudaGetLastError();
    return unsupported(std::string("has no context to be loaded into: ") +
                       cudaGetErrorString(error));
  }
  const std::string& why_not = function->second.load();
  return why_not.empty() ? Support::yes() : unsupported(why_not);
}

cudaError_t LoadedPtx::launch(const std::string& variant, std::int64_t blocks,
                              std::span<void* const> arguments, cudaStream_t stream) {
  const auto function = functions_.find({compute_capability(), variant});
  if (function == functions_.end()) return cudaErrorNotSupported;
  return function->second.launch(blocks, arguments, stream);
}

}  // namespace reprolab
