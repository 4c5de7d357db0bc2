#include "harness/transpose/compiled_kernels.hpp"

namespace reprolab::transpose {
namespace {

PtxKernel with_facts(const reprolab::PtxKernel& kernel, const Manifest& manifest) {
  const int swizzle_bytes = manifest.number("swizzle_bytes", 0, 128);
  if (swizzle_bytes != 0 && swizzle_bytes != 128) {
    manifest.refuse("swizzle_bytes: expected 0 or 128");
  }
  if (!Registry<Problem>::instance().kernels().contains(kernel.counterpart)) {
    manifest.refuse("counterpart: there is no kernel '" + kernel.counterpart + "'");
  }
  return {kernel, swizzle_bytes == 0 ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_128B};
}

}  // namespace

const CompiledFamily<Problem, PtxKernel> compiled_kernels{
    .name = "transpose",
    .variants = {"fp32"},
    .commands = {{"mojo", "make mojo, with ARCH=90 or newer"}},
    .with_facts = with_facts,
    .add = add_ptx_kernel};

}  // namespace reprolab::transpose
