// A control: the baseline's if-tree with its 16 leaves in constant memory in place of literals.
// Both trees have 48 branches and 16 places to reconverge in the loop.
//
// sm_80: nvcc makes each leaf the operand c[bank][offset] of FSEL or IMAD.MOV, as with literals
//        (15,680 bytes of code and 56 registers; with literals 15,424 and 56).
// sm_90: each leaf is an LDC with an address of its own (18,032 bytes and 48 registers; with
//        literals 15,504 and 40).
// The leaves are loaded before the loop. nvcc merges loads at the leaves: then the tree yields an
// address, and one LDC after it is serialized over the threads' codes, as in constant_lut.
//
// Source: ours, for the paper's section IV-C, which expects literals to increase the pressure on
//         the instruction cache.
// Bound:  instruction issue, as in branch_tree.
// Alone:  make bench KERNEL=branch_tree_constant
#include "kernels/nf4/branch_tree.cuh"
#include "kernels/nf4/constant_table.cuh"

namespace reprolab::nf4 {
namespace {

struct ConstantMemory {
  float leaf[16];

  __device__ ConstantMemory() {
#pragma unroll
    for (int code = 0; code < 16; ++code) leaf[code] = constant_table.entry[code];
  }
  __device__ float entry(int code) const { return leaf[code]; }
};

const Register<Problem> registered{{
    .name = "branch_tree_constant",
    .lineage = "the baseline's tree; paper, section IV-C: leaves in constant memory",
    .supports = supports_standard_table,
    .launch = launch_tile_walk<TreeOf<ConstantMemory>>,
}};

}  // namespace
}  // namespace reprolab::nf4
