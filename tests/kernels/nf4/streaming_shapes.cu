// The streaming kernel in other shapes and with other hints, to be timed beside it by
// bench_streaming_shapes. Only that program links them, so that no listing shows them.
#include "kernels/nf4/streaming.cuh"

namespace reprolab::nf4 {
namespace {

template <int Threads, int Words, class Reads>
Register<Problem> shape(const char* name) {
  return Register<Problem>{{.name = name,
                            .lineage = "a shape of the streaming kernel",
                            .source_file = "tests/kernels/nf4/streaming_shapes.cu",
                            .contract = {},
                            .supports = supports_standard_table,
                            .launch = launch_streaming<StreamShape<Threads, Words, Reads>>}};
}

const Register<Problem> shapes[] = {
    // How the work is cut.
    shape<128, 1, KeepReads>("streaming_128x1"),
    shape<128, 2, KeepReads>("streaming_128x2"),
    shape<128, 4, KeepReads>("streaming_128x4"),
    shape<256, 1, KeepReads>("streaming_256x1"),
    shape<256, 2, KeepReads>("streaming_256x2"),
    shape<256, 4, KeepReads>("streaming_256x4"),
    shape<512, 1, KeepReads>("streaming_512x1"),
    shape<512, 3, KeepReads>("streaming_512x3"),
    shape<512, 4, KeepReads>("streaming_512x4"),
    shape<1024, 1, KeepReads>("streaming_1024x1"),
    shape<1024, 2, KeepReads>("streaming_1024x2"),
    // What the caches are asked for.
    shape<512, 2, PlainAccess>("streaming_512x2_plain"),
    shape<512, 2, StreamingAccess>("streaming_512x2_evict_first"),
    shape<256, 2, PlainAccess>("streaming_256x2_plain"),
    shape<256, 2, StreamingAccess>("streaming_256x2_evict_first"),
};

}  // namespace
}  // namespace reprolab::nf4
