// packed_1024 with the registers per thread that the post assumes: 39 to 44 instead of 17 to 20.
// From 33 on, no second block of 1024 threads fits. That leaves 32 of 64 warps, where
// packed_512_registers has 48.
//
// Source: D. Robertson's post: "With high register pressure, you fit one block per SM, leaving you
//         with 32 warps". The registers held are ours, as in packed_512_registers.
// Bound:  latency, as in packed_1024, with half of the warps to hide it.
// Alone:  make bench KERNEL=packed_1024_registers
#include "kernels/nf4/byte_walk.cuh"

namespace reprolab::nf4 {

const Register<Problem> registered{{
    .name = "packed_1024_registers",
    .lineage = "D. Robertson's post: 1024 threads, with the registers that it assumes",
    .supports = supports_packed_stores,
    .launch = launch_byte_walk<PackedStore, ByteTile<256, 4, 2, 2, HeldTable>>,
}};

}  // namespace reprolab::nf4
