// A kernel compiled from another language, for any family: its PTX, a file for each architecture
// and variant of a problem, loaded and launched through the CUDA driver API.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "kernels/registry.hpp"

namespace reprolab {

/// A PTX file and the kernel in it.
struct PtxVariant {
  std::string file, entry;
  unsigned shared_bytes = 0;  ///< Dynamic shared memory.
  int null_pointers = 0;      ///< Parameters after the family's own, which take null.
};

struct PtxKernel {
  std::string name, lineage, source_file;
  std::string compiler;     ///< With its version.
  std::string language;     ///< The target of `make` that builds it.
  std::string counterpart;  ///< As Kernel::counterpart.
  unsigned threads = 0;     ///< In a block.
  /// Integers of its manifest that its family reads.
  std::map<std::string, std::int64_t> numbers{};
  /// By compute capability (90) and by the family's name of the variant.
  std::map<int, std::map<std::string, PtxVariant>> variants{};

  std::int64_t number(const std::string& name) const {
    const auto found = numbers.find(name);
    if (found == numbers.end()) throw std::out_of_range("it lacks '" + name + "'");
    return found->second;
  }
};

/// A kernel and its variants, each loaded when it is first used, for the life of the process.
class LoadedPtx {
 public:
  explicit LoadedPtx(const PtxKernel& kernel);

  /// Whether there is a GPU, the variant is compiled for it, and the driver accepts the PTX.
  Support supports(const std::string& variant);

  /// Launches `blocks` blocks of the variant; `arguments[i]` points to argument i of the family's
  /// own. cudaErrorNotSupported if there is none for this GPU, cudaErrorInvalidKernelImage if the
  /// PTX cannot be loaded.
  cudaError_t launch(const std::string& variant, std::int64_t blocks,
                     std::span<void* const> arguments, cudaStream_t stream);

 private:
  struct Loaded {
    PtxVariant variant;
    CUfunction function = nullptr;
    std::string why_not{};  ///< In one line.
  };
  /// Loads the variant for this GPU into the current context; null if there is none.
  Loaded* loaded(const std::string& variant);

  std::string language_;
  unsigned threads_;
  std::map<std::pair<int, std::string>, Loaded> variants_;
};

/// The kernel as a row of its family, which sets the other fields.
template <class Problem>
Kernel<Problem> described(const PtxKernel& kernel) {
  return {.name = kernel.name,
          .lineage = kernel.lineage,
          .source_file = kernel.source_file,
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
