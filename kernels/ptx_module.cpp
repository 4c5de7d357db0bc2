#include "kernels/ptx_module.hpp"

#include <array>
#include <fstream>
#include <iterator>
#include <utility>

#include "common/dynamic_library.hpp"
#include "common/printable.hpp"

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

PtxFunction::PtxFunction(std::string file, std::string entry)
    : file_(std::move(file)), entry_(std::move(entry)) {}

const std::string& PtxFunction::load(const ModuleDriver& driver) {
  if (!std::exchange(tried_, true)) {
    const std::string why_not = load_now(driver);
    if (!why_not.empty()) why_not_ = printable(file_ + ": " + why_not);
  }
  return why_not_;
}

std::string PtxFunction::load_now(const ModuleDriver& driver) {
  if (!driver.why_not.empty()) return "the CUDA driver cannot be loaded: " + driver.why_not;
  std::ifstream in(file_, std::ios::binary);
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
  if (driver.function(&function_, module, entry_.c_str()) != CUDA_SUCCESS) {
    function_ = nullptr;
    return "has no kernel '" + entry_ + "'";
  }
  return "";
}

cudaError_t PtxFunction::launch(const ModuleDriver& driver, LaunchShape shape, void** arguments,
                                cudaStream_t stream) {
  if (!load(driver).empty()) return cudaErrorInvalidKernelImage;
  // The runtime's errors have the driver's numbers (driver_types.h, since CUDA 10.1).
  return static_cast<cudaError_t>(driver.launch(function_, shape.blocks, 1, 1, shape.threads, 1, 1,
                                                shape.shared_bytes, stream, arguments, nullptr));
}

}  // namespace reprolab
