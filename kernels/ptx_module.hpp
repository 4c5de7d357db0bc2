// A kernel that another language's compiler has made: PTX from a file, loaded and launched through
// the CUDA driver API.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

namespace reprolab {

/// What is used of the driver, loaded on demand. Source: CUDA Driver API, modules and execution.
struct ModuleDriver {
  decltype(&cuModuleLoadDataEx) load = nullptr;
  decltype(&cuModuleGetFunction) function = nullptr;
  decltype(&cuLaunchKernel) launch = nullptr;
  std::string why_not;  ///< Empty if all of the above could be loaded.

  /// That of this machine, looked up once.
  static const ModuleDriver& installed();
};

/// How a kernel is launched: blocks, threads in a block, and bytes of dynamic shared memory.
struct LaunchShape {
  unsigned blocks = 0, threads = 0, shared_bytes = 0;
};

class PtxFunction {
 public:
  /// `file`: the path of the PTX; `entry`: the name of the kernel in it. Reads nothing yet.
  PtxFunction(std::string file, std::string entry);

  /// Compiles and loads the PTX into the current context, the first time that it is called; it then
  /// stays there as long as the process lives. Returns why that failed, in one line, or "".
  const std::string& load(const ModuleDriver& driver);

  /// `arguments[i]` points to argument i. Loads first. cudaErrorInvalidKernelImage if that failed.
  cudaError_t launch(const ModuleDriver& driver, LaunchShape shape, void** arguments,
                     cudaStream_t stream);

 private:
  std::string load_now(const ModuleDriver& driver);

  std::string file_, entry_, why_not_;
  CUfunction function_ = nullptr;
  bool tried_ = false;
};

}  // namespace reprolab
