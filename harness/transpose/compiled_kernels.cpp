#include "harness/transpose/compiled_kernels.hpp"

#include "harness/compiled_kernels.hpp"

namespace reprolab::transpose {
namespace {

const CompiledFamily family{.name = "transpose",
                            .variants = {"fp32"},
                            .commands = {{"mojo", "make mojo, with ARCH=90 or newer"}}};

}  // namespace

std::vector<PtxKernel> read_compiled_kernels(const std::filesystem::path& folder,
                                             const std::filesystem::path& root) {
  std::vector<PtxKernel> found;
  for (const auto& [kernel, manifest] : reprolab::read_compiled_kernels(family, folder, root)) {
    const int swizzle_bytes = manifest.number("swizzle_bytes", 0, 128);
    if (swizzle_bytes != 0 && swizzle_bytes != 128) {
      manifest.refuse("swizzle_bytes: expected 0 or 128");
    }
    if (!Registry<Problem>::instance().kernels().contains(kernel.counterpart)) {
      manifest.refuse("counterpart: there is no kernel '" + kernel.counterpart + "'");
    }
    found.push_back(
        {kernel, swizzle_bytes == 0 ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_128B});
  }
  return found;
}

void load_compiled_kernels() {
  add_compiled_kernels<Problem>(read_compiled_kernels(compiled_folder(), project_root()),
                                add_ptx_kernel);
}

std::vector<std::string> languages_not_built() {
  return reprolab::languages_not_built<Problem>(family);
}

}  // namespace reprolab::transpose
