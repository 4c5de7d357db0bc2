// A control: the baseline's if-tree with its 16 leaves in constant memory in place of literals, so
// that the two kernels differ in literals alone: each has 48 branches and 16 places to reconverge.
//
// Constant addresses keep the 16 loads apart. On sm_80 nvcc makes them operands of the FSEL and
// IMAD.MOV that literals are operands of (15,680 bytes of code, literals 15,424; 56 registers each);
// on sm_90 each is an LDC with its own address (18,032 bytes, literals 15,504; 48 registers, 40).
// They are loaded before the loop, because nvcc merges loads at the leaves: the tree then yields an
// address, and one LDC after it diverges by address as in constant_lut.
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
    .contract = BitExact{},
    .supports = supports_standard_table,
    .launch = launch_tile_walk<TreeOf<ConstantMemory>>,
}};

}  // namespace
}  // namespace reprolab::nf4
