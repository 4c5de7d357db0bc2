// Sums in one launch: each thread adds a few words, each block its threads, and then adds once to
// the output, which is set to 0 before. The kernels differ in the words of a thread and in the
// tail.
//
// Source: kernels 2 to 9 of S. Veitner, "Making vector sum really fast", but for CUB; its
//         one_pass_4 and _5 in Mojo; kernel 3 of P. Shah's fast.cu; written here. Ours takes words
//         as the ceiling read_only does.
// Bound:  memory; with one word a thread, the rate at which blocks start and add to one address.
// Alone:  make bench KERNEL=sum_vectors_redux
#include <type_traits>

#include "kernels/definition.hpp"
#include "kernels/device.hpp"
#include "kernels/reduction/block_sum.cuh"
#include "kernels/reduction/problem.hpp"

namespace reprolab::reduction {
namespace {

/// `words` words in a row, each loaded alone. `in_row` words are one load.
template <int words>
struct Scalars {
  static constexpr int count = words, threads = 512, in_row = 1;
  __device__ static std::uint32_t sum(const Problem& problem) {
    const std::int64_t thread = std::int64_t{blockIdx.x} * threads + threadIdx.x;
    std::uint32_t sum = 0;
#pragma unroll
    for (int j = 0; j < words; ++j) {
      if (thread * words + j < problem.n) sum += problem.input[thread * words + j];
    }
    return sum;
  }
};

/// The sum of vector `i` of four words; 0 past the end.
__device__ std::uint32_t vector_sum(const Problem& problem, std::int64_t i) {
  if (4 * i >= problem.n) return 0;
  const uint4 words = reinterpret_cast<const uint4*>(problem.input)[i];
  return words.x + words.y + words.z + words.w;
}

/// `vectors` vectors in a row.
template <int vectors>
struct Vectors {
  static constexpr int count = 4 * vectors, threads = 512, in_row = 4;
  __device__ static std::uint32_t sum(const Problem& problem) {
    const std::int64_t thread = std::int64_t{blockIdx.x} * threads + threadIdx.x;
    std::uint32_t sum = 0;
#pragma unroll
    for (int j = 0; j < vectors; ++j) sum += vector_sum(problem, thread * vectors + j);
    return sum;
  }
};

/// The same in a loop over as many threads as there are words, as in Mojo: only the first trip
/// finds words, the others compare.
template <int vectors>
struct MoreTrips : Vectors<vectors> {
  __device__ static std::uint32_t sum(const Problem& problem) {
    constexpr int threads = Vectors<vectors>::threads;
    std::uint32_t sum = 0;
    for (std::int64_t thread = std::int64_t{blockIdx.x} * threads + threadIdx.x; thread < problem.n;
         thread += std::int64_t{gridDim.x} * threads) {
#pragma unroll
      for (int j = 0; j < vectors; ++j) sum += vector_sum(problem, thread * vectors + j);
    }
    return sum;
  }
};

/// `vectors` vectors, a block apart: neighbouring threads load neighbours.
template <int block, int vectors>
struct Strided {
  static constexpr int count = 4 * vectors, threads = block, in_row = 4;
  __device__ static std::uint32_t sum(const Problem& problem) {
    const std::int64_t first = std::int64_t{blockIdx.x} * vectors * block + threadIdx.x;
    std::uint32_t sum = 0;
#pragma unroll
    for (int j = 0; j < vectors; ++j) sum += vector_sum(problem, first + j * block);
    return sum;
  }
};

template <class Words, class Tail>
__global__ void __launch_bounds__(Words::threads) add_block(const Problem problem) {
  const std::uint32_t sum = Tail::template sum<Words::threads>(Words::sum(problem));
  if (threadIdx.x == 0) atomicAdd(problem.output, sum);
}

template <class Words, class Tail>
cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  const cudaError_t error = cudaMemsetAsync(problem.output, 0, sizeof *problem.output, stream);
  const std::int64_t blocks = blocks_over(problem.n, Words::count * Words::threads);
  if (error != cudaSuccess || blocks == 0) return error;
  add_block<Words, Tail><<<grid_of(blocks), Words::threads, 0, stream>>>(problem);
  return cudaGetLastError();
}

template <class Words, class Tail>
Support supports(const Problem& problem) {
  if (std::is_same_v<Tail, RegisterTail<Redux>> && compute_capability() < 80) {
    return Support::no("redux needs compute capability 8.0");
  }
  if (problem.n % Words::in_row != 0 ||
      reinterpret_cast<std::uintptr_t>(problem.input) % (4 * Words::in_row) != 0) {
    return Support::no("needs words in multiples of 4, from a multiple of 16 bytes on");
  }
  if (blocks_over(problem.n, Words::count * Words::threads) <= max_blocks) return Support::yes();
  return Support::no("a grid has 2^31 - 1 blocks at most");
}

template <class Words, class Tail>
Definition<Problem> sum(const char* name, const char* lineage) {
  return {.name = name,
          .lineage = lineage,
          .source_file = "kernels/reduction/one_atomic.cu",
          .supports = supports<Words, Tail>,
          .launch = launch<Words, Tail>};
}

const Register<Problem> registered[] = {
    sum<Scalars<1>, WarpTail>("sum_one_word", "Veitner, kernel 2"),
    sum<Scalars<12>, WarpTail>("sum_twelve", "Veitner, kernel 3"),
    sum<Vectors<3>, WarpTail>("sum_vectors", "Veitner, kernel 4"),
    sum<Scalars<12>, RegisterTail<Shuffle>>("sum_twelve_shuffle", "Veitner, kernel 6"),
    sum<Scalars<12>, RegisterTail<Redux>>("sum_twelve_redux", "Veitner, kernel 7"),
    sum<Vectors<3>, RegisterTail<Shuffle>>("sum_vectors_shuffle", "Veitner, kernel 8"),
    sum<Vectors<3>, RegisterTail<Redux>>("sum_vectors_redux", "Veitner, kernel 9"),
    sum<MoreTrips<2>, RegisterTail<Shuffle>>("sum_eight", "Veitner's Mojo, one_pass_4"),
    sum<MoreTrips<4>, RegisterTail<Shuffle>>("sum_sixteen", "Veitner's Mojo, one_pass_5"),
    sum<Strided<1024, 16>, AtomicTail>("sum_strided", "fast.cu, kernel 3"),
    sum<Strided<512, 8>, AtomicTail>("sum_neighbours", "ours"),
};

}  // namespace
}  // namespace reprolab::reduction
