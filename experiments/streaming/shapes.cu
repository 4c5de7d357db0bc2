// The streaming kernel in other shapes and with other hints, for comparison by
// bench_streaming_shapes. Only that program links them, so that no listing shows them.
#include <string>
#include <type_traits>

#include "kernels/nf4/streaming.cuh"
#include "kernels/registry.hpp"

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

/// Prefetch distance in L2, in Ki words, of a StreamShape that names none.
constexpr int usual_ahead = 512, usual_burst = 8;

/// Registers a shape under a descriptive name. `ahead` and `burst`: the prefetch distance and
/// length in Ki words. Text that each shape's own function put together would take as long to
/// compile as the kernels.
void add(int threads, int words, const std::string& reads, int ahead, int burst,
         cudaError_t (*launch)(const Problem&, cudaStream_t)) {
  std::string name = "streaming_" + std::to_string(threads) + "x" + std::to_string(words) + reads;
  if (ahead == 0) {
    name += "_nothing_ahead";
  } else if (ahead != usual_ahead || burst != usual_burst) {
    name += "_ahead_" + std::to_string(ahead) + "_" + std::to_string(burst);
  }
  Registry<Problem>::instance().add({.name = name,
                                     .lineage = "streaming in another shape",
                                     .source_file = "experiments/streaming/shapes.cu",
                                     .supports = supports,
                                     .launch = launch});
}

template <int Threads, int Words, class Reads = StreamingAccess, int Ahead = usual_ahead,
          int Burst = usual_burst>
void add() {
  using Shape = StreamShape<Threads, Words, Reads, StreamingAccess, Ahead * 1024, Burst * 1024>;
  const char* reads = std::is_same_v<Reads, PlainAccess> ? "_plain"
                      : std::is_same_v<Reads, KeepReads> ? "_keep"
                                                         : "";
  add(Threads, Words, reads, Ahead, Burst, launch<Shape>);
}

template <int Threads, int... Words>
void add_each() {
  (add<Threads, Words>(), ...);
}

template <int Threads, int... Words>
void add_nothing_ahead() {
  (add<Threads, Words, StreamingAccess, 0>(), ...);
}

template <int Threads, int Words>
void add_ahead() {
  add<Threads, Words, StreamingAccess, 128, 8>();
  add<Threads, Words, StreamingAccess, 256, 8>();
  add<Threads, Words, StreamingAccess, 512, 1>();
  add<Threads, Words, StreamingAccess, 512, 2>();
  add<Threads, Words, StreamingAccess, 512, 4>();
  add<Threads, Words, StreamingAccess, 512, 16>();
  add<Threads, Words, StreamingAccess, 1024, 8>();
  add<Threads, Words, StreamingAccess, 1024, 32>();
  add<Threads, Words, StreamingAccess, 2048, 8>();
}

[[maybe_unused]] const bool registered = [] {
  // Tilings.
  add_each<32, 8>();
  add_each<64, 2, 4, 8>();
  add_each<128, 1, 2, 4, 8>();
  add_each<256, 1, 2, 4, 8>();
  add_each<512, 1, 2, 4>();
  add_each<1024, 1, 2>();
  // Cache hints.
  add<128, 2, PlainAccess>();
  add<256, 2, PlainAccess>();
  add<256, 4, PlainAccess>();
  add<512, 2, PlainAccess>();
  add<512, 2, KeepReads>();
  add<1024, 1, PlainAccess>();
  add<1024, 1, KeepReads>();
  // Prefetches to L2.
  add_nothing_ahead<32, 8>();
  add_nothing_ahead<64, 4, 8>();
  add_nothing_ahead<128, 4, 8>();
  add_nothing_ahead<256, 4, 8>();
  add_nothing_ahead<512, 1, 2>();
  add_nothing_ahead<1024, 1>();
  add_ahead<512, 2>();
  add_ahead<1024, 1>();
  return true;
}();

}  // namespace
}  // namespace reprolab::nf4
