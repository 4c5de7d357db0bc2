// packed_512 with the registers per thread that the post assumes: 37 to 40 from Ampere on, instead
// of 17 to 20. Three blocks of 512 threads then fill 48 of a multiprocessor's 64 warps, and a
// single block of packed_1024_registers 32.
//
// Source: D. Robertson's post: "With high register pressure, you fit one block per SM, leaving you
//         with 32 warps", and 512-thread blocks "allowing 3-4 blocks per SM". Whether its code
//         needs as many is not known; the held registers are ours, to test its statements about
//         them.
// Bound:  latency, as in packed_512, with fewer warps to hide it.
// Alone:  make bench KERNEL=packed_512_registers
#include "kernels/nf4/byte_walk.cuh"

namespace reprolab::nf4 {

const Register<Problem> registered{{
    .name = "packed_512_registers",
    .lineage = "D. Robertson's post: 512 threads, with the registers that it assumes",
    .supports = supports_packed_stores,
    .launch = launch_byte_walk<PackedStore, ByteTile<128, 4, 2, 2, HeldTable>>,
}};

}  // namespace reprolab::nf4
