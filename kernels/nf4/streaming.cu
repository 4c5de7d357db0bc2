// As fast as the memory allows, by few and wide accesses: a thread loads 4 bytes of codes, looks up
// 8 weights in shared memory and writes them with one 16-byte store. L2 is asked to keep what was
// read. A nested scale is decoded in the same kernel, from a map in shared memory.
//
// Source: ours. 512 threads of 2 words each, and the request to L2, were the fastest of what a
//         prototype tried on an H200; tests/kernels/nf4/streaming_shapes.cu has other shapes.
// Bound:  memory. The prototype reached 0.97 of the speed of a copy of the same bytes.
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
    .launch = launch_streaming<StreamingShape>,
}};

}  // namespace
}  // namespace reprolab::nf4
