// As fast as the memory allows: few wide accesses, each used for all it moves. A thread loads 4
// bytes of codes, looks up 8 weights in shared memory and writes them with one 16-byte store. L2 is
// asked to keep what is read, so that the 4 times larger output does not displace it.
//
// Source: ours. 512 threads with 2 words each, and the request to L2, were the fastest of the shapes
//         and cache hints that a prototype timed on an H200.
// Bound:  memory, at nearly the speed of a copy.
// Alone:  make bench KERNEL=streaming
#include "kernels/nf4/streaming.cuh"

namespace reprolab::nf4 {
namespace {

const Register<Problem> registered{{
    .name = "streaming",
    .lineage = "ours",
    .source_file = "kernels/nf4/streaming.cu",
    .contract = {},
    .supports = supports_standard_table,
    .launch = launch_streaming<StreamShape<512, 2, KeepReads>>,
}};

}  // namespace
}  // namespace reprolab::nf4
