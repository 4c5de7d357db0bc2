// A kernel compiled from another language, for any family: its PTX, a file for each architecture
// and variant of a problem, loaded and launched through the CUDA driver API.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "kernels/registry.hpp"

namespace reprolab {

/// The functions of the driver, loaded on demand. Source: CUDA Driver API, modules and execution.
struct ModuleDriver {
  decltype(&cuModuleLoadDataEx) load = nullptr;
  decltype(&cuModuleGetFunction) function = nullptr;
  decltype(&cuLaunchKernel) launch = nullptr;
  std::string why_not;  ///< Empty if all of the above could be loaded.

  /// The driver of this machine, looked up once.
  static const ModuleDriver& installed();
};

/// A PTX file and the kernel in it.
struct PtxVariant {
  std::string file, entry;
  unsigned shared_bytes = 0;  ///< Dynamic shared memory.
  int null_pointers = 0;      ///< Parameters after the family's own, which take null.
};

inline constexpr int max_null_pointers = 4;

/// A variant and its loaded function.
class PtxFunction {
 public:
  /// Blocks have `threads` threads. Reads nothing yet.
  PtxFunction(PtxVariant variant, unsigned threads)
      : variant_(std::move(variant)), threads_(threads) {}

  /// Compiles and loads the PTX into the current context on the first call, for the life of the
  /// process. Returns "", or the reason for a failure in one line.
  const std::string& load(const ModuleDriver& driver = ModuleDriver::installed());

  /// `arguments[i]` points to argument i of the family's own. Loads first.
  /// cudaErrorInvalidKernelImage if that failed.
  cudaError_t launch(std::int64_t blocks, std::span<void* const> arguments, cudaStream_t stream,
                     const ModuleDriver& driver = ModuleDriver::installed());

 private:
  std::string load_now(const ModuleDriver& driver);

  PtxVariant variant_;
  unsigned threads_;
  std::string why_not_;
  CUfunction function_ = nullptr;
  bool tried_ = false;
};

struct PtxKernel {
  std::string name, lineage, source_file;
  std::string compiler;     ///< With its version.
  std::string language;     ///< The target of `make` that builds it.
  std::string counterpart;  ///< As Kernel::counterpart.
  unsigned threads = 0;     ///< In a block.
  /// By compute capability (90) and by the family's name of the variant.
  std::map<int, std::map<std::string, PtxVariant>> variants;
};

/// A kernel and its loaded variants.
class LoadedPtx {
 public:
  explicit LoadedPtx(const PtxKernel& kernel);

  /// Whether there is a GPU, the variant is compiled for it, and the driver accepts the PTX, which
  /// the first call loads.
  Support supports(const std::string& variant);

  /// Launches `blocks` blocks of the variant, as PtxFunction does. cudaErrorNotSupported if there
  /// is none for this GPU.
  cudaError_t launch(const std::string& variant, std::int64_t blocks,
                     std::span<void* const> arguments, cudaStream_t stream);

 private:
  std::string language_;
  std::map<std::pair<int, std::string>, PtxFunction> functions_;
};

/// The kernel as a row of its family, which sets the other fields.
template <class Problem>
Kernel<Problem> described(const PtxKernel& kernel) {
  return {.name = kernel.name,
          .lineage = kernel.lineage,
          .source_file = kernel.source_file,
          .contract = BitExact{},
          .supports = {},
          .launch = {},
          .origin = {Origin::Kind::compiler, kernel.compiler},
          .code_files =
              [variants = kernel.variants](int capability) {
                std::vector<std::string> files;
                const auto found = variants.find(capability);
                if (found == variants.end()) return files;
                for (const auto& [name, variant] : found->second) files.push_back(variant.file);
                return files;
              },
          .language = kernel.language,
          .counterpart = kernel.counterpart};
}

}  // namespace reprolab
