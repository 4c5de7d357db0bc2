// The streaming kernel in other shapes and with other hints, to be timed beside it by
// bench_streaming_shapes. Only that program links them, so that no listing shows them.
#include <string>

#include "kernels/nf4/streaming.cuh"

namespace reprolab::nf4 {
namespace {

// More types of output would take minutes to compile.
Support supports(const Problem& problem) {
  if (problem.output_type != OutputType::fp16 || problem.n > longest_for_32_bits) {
    return Support::no("is compiled for fp16 outputs and fewer than 2^32 weights");
  }
  return supports_standard_table(problem);
}

template <class Shape, class ScaleReader>
cudaError_t launch_with(const Problem& problem, cudaStream_t stream) {
  const auto cut = words_of(problem);
  const auto enqueue = cut.are_aligned
                           ? enqueue_streaming<Shape, true, std::uint32_t, ScaleReader, __half>
                           : enqueue_streaming<Shape, false, std::uint32_t, ScaleReader, __half>;
  return enqueue(problem, cut, stream);
}

template <class Shape>
cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  return problem.is_nested() ? launch_with<Shape, NestedScaleReader>(problem, stream)
                             : launch_with<Shape, PlainScaleReader>(problem, stream);
}

/// How codes are read: in a shape's name, and in the code.
template <class Reads>
struct Named;
template <>
struct Named<StreamingAccess> {
  static constexpr const char *name = "", *code = "StreamingAccess";
};
template <>
struct Named<PlainAccess> {
  static constexpr const char *name = "_plain", *code = "PlainAccess";
};
template <>
struct Named<KeepReads> {
  static constexpr const char *name = "_keep", *code = "KeepReads";
};

/// What L2 is asked for ahead, in Ki words, by a StreamShape of which nothing else is said.
constexpr int usual_ahead = 512, usual_burst = 8;

/// Registers a shape under a name that spells out what it is; its lineage is how streaming.cu
/// writes it.
template <int Threads, int Words, class Reads = StreamingAccess, int Ahead = usual_ahead,
          int Burst = usual_burst>
Register<Problem> shape() {
  using Shape = StreamShape<Threads, Words, Reads, StreamingAccess, Ahead * 1024, Burst * 1024>;
  const std::string size = std::to_string(Threads) + ", " + std::to_string(Words);
  const std::string ahead = std::to_string(Ahead), burst = std::to_string(Burst);
  std::string name = "streaming_" + std::to_string(Threads) + "x" + std::to_string(Words);
  name += Named<Reads>::name;
  std::string code = "StreamShape<" + size;
  if (Ahead == 0) {
    name += "_nothing_ahead";
    code = "NothingAhead<" + size;
  } else if (Ahead != usual_ahead || Burst != usual_burst) {
    name += "_ahead_" + ahead + "_" + burst;
    code += std::string(", ") + Named<Reads>::code + ", StreamingAccess, " + ahead + " << 10, " +
            burst + " << 10";
  } else if (!std::is_same_v<Reads, StreamingAccess>) {
    code += std::string(", ") + Named<Reads>::code;
  }
  return Register<Problem>{{.name = name,
                            .lineage = code + ">",
                            .source_file = "experiments/streaming/shapes.cu",
                            .contract = BitExact{},
                            .supports = supports,
                            .launch = launch<Shape>}};
}

/// How many Ki words ahead, and how many at a time.
template <int Threads, int Words, int Ahead, int Burst>
Register<Problem> ahead() {
  return shape<Threads, Words, StreamingAccess, Ahead, Burst>();
}

template <int Threads, int Words>
Register<Problem> nothing_ahead() {
  return ahead<Threads, Words, 0, usual_burst>();
}

const Register<Problem> shapes[] = {
    // How the work is cut.
    shape<32, 8>(),
    shape<64, 2>(),
    shape<64, 4>(),
    shape<64, 8>(),
    shape<128, 1>(),
    shape<128, 2>(),
    shape<128, 4>(),
    shape<128, 8>(),
    shape<256, 1>(),
    shape<256, 2>(),
    shape<256, 4>(),
    shape<256, 8>(),
    shape<512, 1>(),
    shape<512, 2>(),
    shape<512, 4>(),
    shape<1024, 1>(),
    shape<1024, 2>(),
    // What the caches are asked for.
    shape<128, 2, PlainAccess>(),
    shape<256, 2, PlainAccess>(),
    shape<256, 4, PlainAccess>(),
    shape<512, 2, PlainAccess>(),
    shape<512, 2, KeepReads>(),
    shape<1024, 1, PlainAccess>(),
    shape<1024, 1, KeepReads>(),
    // What L2 is asked for ahead.
    nothing_ahead<32, 8>(),
    nothing_ahead<64, 4>(),
    nothing_ahead<64, 8>(),
    nothing_ahead<128, 4>(),
    nothing_ahead<128, 8>(),
    nothing_ahead<256, 4>(),
    nothing_ahead<256, 8>(),
    nothing_ahead<512, 1>(),
    nothing_ahead<512, 2>(),
    nothing_ahead<1024, 1>(),
    ahead<512, 2, 128, 8>(),
    ahead<512, 2, 256, 8>(),
    ahead<512, 2, 512, 1>(),
    ahead<512, 2, 512, 2>(),
    ahead<512, 2, 512, 4>(),
    ahead<512, 2, 512, 16>(),
    ahead<512, 2, 1024, 8>(),
    ahead<512, 2, 1024, 32>(),
    ahead<512, 2, 2048, 8>(),
    ahead<1024, 1, 128, 8>(),
    ahead<1024, 1, 256, 8>(),
    ahead<1024, 1, 512, 1>(),
    ahead<1024, 1, 512, 2>(),
    ahead<1024, 1, 512, 4>(),
    ahead<1024, 1, 512, 16>(),
    ahead<1024, 1, 1024, 8>(),
    ahead<1024, 1, 1024, 32>(),
    ahead<1024, 1, 2048, 8>(),
};

}  // namespace
}  // namespace reprolab::nf4
