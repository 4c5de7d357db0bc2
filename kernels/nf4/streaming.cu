// Near copy speed by few and wide accesses: a thread loads 4 bytes of codes, looks up 8 weights in
// shared memory and writes them with one 16-byte store. The codes of large matrices are prefetched
// to L2 early and in long bursts. Nested scales are decoded in the same kernel, from a map in
// shared memory. The arrays may begin anywhere (Words).
//
// Source: ours.
// Bound:  memory: on an H200 a large matrix takes at most 1.02 times as long as cudaMemcpy for the
//         same bytes, with nested scales 1.03 times. Where 4 to 80 MiB are written, cudaMemcpy
//         takes as long or longer.
// Alone:  make bench KERNEL=streaming
#include "kernels/nf4/streaming.cuh"

#include <limits>

namespace reprolab::nf4 {
namespace {

/// The shapes that were the fastest on an H200, or within 2 % of the fastest (5 % for unaligned
/// words), of those that `make reproduce-streaming` tries. Small matrices need small blocks with
/// much work per thread and no prefetch: all their reads are soon in flight. Large ones need many
/// short-lived blocks. Other architectures were not measured and use the same shapes.
struct Choice {
  std::int64_t max_weights;
  cudaError_t (*launch)(const Problem&, cudaStream_t);
};
using Small = NothingAhead<64, 4>;
using SmallNested = NothingAhead<256, 4>;
using Medium = NothingAhead<128, 8>;
using Large = StreamShape<512, 2>;
constexpr Choice choices[] = {
    {6'000'000, launch_streaming<Small, SmallNested, Small>},
    {10'000'000, launch_streaming<Medium>},
    {14'000'000, launch_streaming<Medium, Medium, Large>},
    {17'000'000, launch_streaming<Small, Large>},
    {50'000'000, launch_streaming<StreamShape<512, 1>, Large>},
    {std::numeric_limits<std::int64_t>::max(), launch_streaming<StreamShape<1024, 1>, Large>},
};

cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  const Choice* choice = choices;
  while (problem.n > choice->max_weights) ++choice;
  return choice->launch(problem, stream);
}

const Register<Problem> registered{{
    .name = "streaming",
    .lineage = "ours",
    .supports = supports_standard_table,
    .launch = launch,
}};

}  // namespace
}  // namespace reprolab::nf4
