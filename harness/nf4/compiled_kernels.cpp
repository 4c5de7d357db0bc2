#include "harness/nf4/compiled_kernels.hpp"

#include <fmt/core.h>

#include "harness/compiled_kernels.hpp"
#include "harness/selection.hpp"
#include "harness/workload.hpp"
#include "kernels/nf4/problem.hpp"

namespace reprolab::nf4 {
namespace {

const CompiledFamily family{.name = "nf4",
                            .variants = {"fp16", "bf16", "fp16_nested", "bf16_nested"},
                            .commands = {{"mojo", "make mojo"}, {"triton", "make triton"}}};

}  // namespace

std::vector<PtxKernel> read_compiled_kernels(const std::filesystem::path& folder,
                                             const std::filesystem::path& root) {
  std::vector<PtxKernel> found;
  for (const auto& [kernel, manifest] : reprolab::read_compiled_kernels(family, folder, root)) {
    found.push_back({kernel, manifest.number("weights_per_block", 1, 1 << 20),
                     manifest.number("pointer_alignment", 1, 16),
                     manifest.number("weights_multiple", 1, 1 << 20)});
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

void print_languages_not_built(const std::string& pattern) {
  if (!pattern.empty()) return;
  for (const auto& line : languages_not_built()) fmt::print("{}\n", line);
}

std::vector<VariantInfo> select_kernels(const std::string& pattern) {
  return reprolab::select_kernels(pattern, registered_variants<Problem>(), languages_not_built());
}

}  // namespace reprolab::nf4
