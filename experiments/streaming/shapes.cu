// The streaming kernel in other shapes and with other hints, to be timed beside it by
// bench_streaming_shapes. Only that program links them, so that no listing shows them.
#include "kernels/nf4/streaming.cuh"

namespace reprolab::nf4 {
namespace {

// One type of output, and only arrays that begin at aligned addresses: more would take minutes to
// compile.
Support supports(const Problem& problem) {
  if (problem.output_type != OutputType::fp16 || !words_of(problem).are_aligned() ||
      problem.n > longest_for_32_bits) {
    return Support::no("is compiled for fp16 outputs, aligned arrays and fewer than 2^32 weights");
  }
  return supports_standard_table(problem);
}

template <class Shape>
cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  const auto enqueue =
      problem.is_nested() ? enqueue_streaming<Shape, true, std::uint32_t, NestedScaleReader, __half>
                          : enqueue_streaming<Shape, true, std::uint32_t, PlainScaleReader, __half>;
  return enqueue(problem, words_of(problem), stream);
}

template <class Shape>
Register<Problem> shape(const char* name) {
  return Register<Problem>{{.name = name,
                            .lineage = "a shape of the streaming kernel",
                            .source_file = "tests/kernels/nf4/streaming_shapes.cu",
                            .contract = {},
                            .supports = supports,
                            .launch = launch<Shape>}};
}

const Register<Problem> shapes[] = {
    // How the work is cut.
    shape<StreamShape<64, 4>>("streaming_64x4"),
    shape<StreamShape<128, 1>>("streaming_128x1"),
    shape<StreamShape<128, 2>>("streaming_128x2"),
    shape<StreamShape<128, 4>>("streaming_128x4"),
    shape<StreamShape<128, 8>>("streaming_128x8"),
    shape<StreamShape<256, 1>>("streaming_256x1"),
    shape<StreamShape<256, 2>>("streaming_256x2"),
    shape<StreamShape<256, 4>>("streaming_256x4"),
    shape<StreamShape<512, 1>>("streaming_512x1"),
    shape<StreamShape<512, 2>>("streaming_512x2"),
    shape<StreamShape<512, 4>>("streaming_512x4"),
    shape<StreamShape<1024, 1>>("streaming_1024x1"),
    shape<StreamShape<1024, 2>>("streaming_1024x2"),
    // What the caches are asked for.
    shape<StreamShape<512, 2, PlainAccess>>("streaming_512x2_plain"),
    shape<StreamShape<512, 2, KeepReads>>("streaming_512x2_keep"),
    shape<StreamShape<1024, 1, PlainAccess>>("streaming_1024x1_plain"),
    shape<StreamShape<1024, 1, KeepReads>>("streaming_1024x1_keep"),
    // How many Ki words ahead, and how many at a time. 0: not at all.
    shape<StreamShape<512, 2, StreamingAccess, StreamingAccess, 0 << 10, 8 << 10>>(
        "streaming_512x2_ahead_0_8"),
    shape<StreamShape<512, 2, StreamingAccess, StreamingAccess, 128 << 10, 8 << 10>>(
        "streaming_512x2_ahead_128_8"),
    shape<StreamShape<512, 2, StreamingAccess, StreamingAccess, 256 << 10, 8 << 10>>(
        "streaming_512x2_ahead_256_8"),
    shape<StreamShape<512, 2, StreamingAccess, StreamingAccess, 512 << 10, 1 << 10>>(
        "streaming_512x2_ahead_512_1"),
    shape<StreamShape<512, 2, StreamingAccess, StreamingAccess, 512 << 10, 2 << 10>>(
        "streaming_512x2_ahead_512_2"),
    shape<StreamShape<512, 2, StreamingAccess, StreamingAccess, 512 << 10, 4 << 10>>(
        "streaming_512x2_ahead_512_4"),
    shape<StreamShape<512, 2, StreamingAccess, StreamingAccess, 512 << 10, 16 << 10>>(
        "streaming_512x2_ahead_512_16"),
    shape<StreamShape<512, 2, StreamingAccess, StreamingAccess, 512 << 10, 64 << 10>>(
        "streaming_512x2_ahead_512_64"),
    shape<StreamShape<512, 2, StreamingAccess, StreamingAccess, 1024 << 10, 8 << 10>>(
        "streaming_512x2_ahead_1024_8"),
    shape<StreamShape<512, 2, StreamingAccess, StreamingAccess, 1024 << 10, 32 << 10>>(
        "streaming_512x2_ahead_1024_32"),
    shape<StreamShape<512, 2, StreamingAccess, StreamingAccess, 2048 << 10, 8 << 10>>(
        "streaming_512x2_ahead_2048_8"),
    shape<StreamShape<1024, 1, StreamingAccess, StreamingAccess, 0 << 10, 8 << 10>>(
        "streaming_1024x1_ahead_0_8"),
    shape<StreamShape<1024, 1, StreamingAccess, StreamingAccess, 128 << 10, 8 << 10>>(
        "streaming_1024x1_ahead_128_8"),
    shape<StreamShape<1024, 1, StreamingAccess, StreamingAccess, 256 << 10, 8 << 10>>(
        "streaming_1024x1_ahead_256_8"),
    shape<StreamShape<1024, 1, StreamingAccess, StreamingAccess, 512 << 10, 1 << 10>>(
        "streaming_1024x1_ahead_512_1"),
    shape<StreamShape<1024, 1, StreamingAccess, StreamingAccess, 512 << 10, 2 << 10>>(
        "streaming_1024x1_ahead_512_2"),
    shape<StreamShape<1024, 1, StreamingAccess, StreamingAccess, 512 << 10, 4 << 10>>(
        "streaming_1024x1_ahead_512_4"),
    shape<StreamShape<1024, 1, StreamingAccess, StreamingAccess, 512 << 10, 16 << 10>>(
        "streaming_1024x1_ahead_512_16"),
    shape<StreamShape<1024, 1, StreamingAccess, StreamingAccess, 512 << 10, 64 << 10>>(
        "streaming_1024x1_ahead_512_64"),
    shape<StreamShape<1024, 1, StreamingAccess, StreamingAccess, 1024 << 10, 8 << 10>>(
        "streaming_1024x1_ahead_1024_8"),
    shape<StreamShape<1024, 1, StreamingAccess, StreamingAccess, 1024 << 10, 32 << 10>>(
        "streaming_1024x1_ahead_1024_32"),
    shape<StreamShape<1024, 1, StreamingAccess, StreamingAccess, 2048 << 10, 8 << 10>>(
        "streaming_1024x1_ahead_2048_8"),
};

}  // namespace
}  // namespace reprolab::nf4
