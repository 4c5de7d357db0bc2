#include "harness/nf4/compiled_kernels.hpp"

#include <fmt/core.h>

namespace reprolab::nf4 {

const CompiledFamily<Problem, PtxKernel> compiled_kernels{
    .name = "nf4",
    .variants = {"fp16", "bf16", "fp16_nested", "bf16_nested"},
    .commands = {{"mojo", "make mojo"}, {"triton", "make triton"}},
    .with_facts = [](const reprolab::PtxKernel& kernel, const Manifest& manifest) -> PtxKernel {
      return {kernel, manifest.number("weights_per_block", 1, 1 << 20),
              manifest.number("pointer_alignment", 1, 16),
              manifest.number("weights_multiple", 1, 1 << 20)};
    },
    .add = add_ptx_kernel};

void print_languages_not_built(const std::string& pattern) {
  if (!pattern.empty()) return;
  for (const auto& line : compiled_kernels.languages_not_built()) fmt::print("{}\n", line);
}

}  // namespace reprolab::nf4
