#include "harness/transpose/compiled_kernels.hpp"

namespace reprolab::transpose {
namespace {

PtxKernel with_facts(const reprolab::PtxKernel& kernel, const Manifest& manifest) {
  kernel_named<Problem>(kernel.counterpart);  // throws where there is none
  return {kernel, manifest.at("swizzle_bytes") == 0 ? CU_TENSOR_MAP_SWIZZLE_NONE
                                                    : CU_TENSOR_MAP_SWIZZLE_128B};
}

}  // namespace

const CompiledFamily<Problem, PtxKernel> compiled_kernels{
    .name = "transpose",
    .variants = {"fp32"},
    .commands = {{"mojo", "make mojo, with ARCH=90 or newer"}},
    .with_facts = with_facts,
    .add = add_ptx_kernel};

}  // namespace reprolab::transpose
