#include "harness/nf4/compiled_kernels.hpp"

#include <fmt/core.h>

namespace reprolab::nf4 {

const CompiledFamily<Problem, PtxKernel> compiled_kernels{
    .name = "nf4",
    .variants = {"fp16", "bf16", "fp16_nested", "bf16_nested"},
    .commands = {{"mojo", "make mojo"}, {"triton", "make triton"}},
    .with_facts = [](const reprolab::PtxKernel& kernel, const Manifest& manifest) -> PtxKernel {
      return {kernel, manifest.at("weights_per_block"), manifest.at("pointer_alignment"),
              manifest.at("weights_multiple")};
    },
    .add = add_ptx_kernel};

void print_languages_not_built(const std::string& pattern) {
  if (!pattern.empty()) return;
  for (const auto& line : compiled_kernels.languages_not_built()) fmt::print("{}\n", line);
}

}  // namespace reprolab::nf4
