// Sums of 32-bit words modulo 2^32, of a vector of one length or of those of the command line.
#include <numeric>

#include "harness/compiled_kernels.hpp"
#include "harness/plain_family.cuh"
#include "kernels/reduction/problem.hpp"
#include "reference/nf4/nf4.hpp"

namespace reprolab::reduction {
namespace {

/// A kernel in PTX, with the variant "uint32", that adds to the output. It takes input, output and
/// n as Problem has them; its grid has a block for each words_per_block of n.
void add_ptx_kernel(const PtxKernel& kernel) {
  const std::int64_t words = kernel.number("words_per_block");
  const auto ptx = std::make_shared<LoadedPtx>(kernel);
  Kernel<Problem> row = described<Problem>(kernel);
  row.supports = [=](const Problem& problem) {
    const auto address = reinterpret_cast<std::uintptr_t>(problem.input);
    if (address % 32 == 0 && problem.n <= words * max_blocks) return ptx->supports("uint32");
    return Support::no("needs words from a multiple of 32 bytes on, in 2^31 - 1 blocks at most");
  };
  row.launch = [=](Problem problem, cudaStream_t stream) {
    const cudaError_t error = cudaMemsetAsync(problem.output, 0, sizeof *problem.output, stream);
    if (error != cudaSuccess || problem.n == 0) return error;
    void* const arguments[] = {&problem.input, &problem.output, &problem.n};
    return ptx->launch("uint32", blocks_over(problem.n, words), arguments, stream);
  };
  Registry<Problem>::instance().add(std::move(row));
}

struct Sum {
  using Problem = reduction::Problem;
  static inline const CompiledFamily<Problem> compiled{
      "reduction", {"uint32"}, {{"mojo", "make mojo"}}, add_ptx_kernel};

  std::int64_t length = 0;
  int data = 0;

  static const PlainFacts<Sum>& facts() {
    static const PlainFacts<Sum> facts{.family = {.name = "reduction",
                                                  .size_option = "--length",
                                                  .profiled_size = "1073741824"},  // the posts'
                                       .element = "sum",
                                       .numbers = {{{.name = "length"}, &Sum::length}},
                                       .usual = {{.length = std::int64_t{1} << 30}},
                                       .small = {{1}, {1000}, {100003}, {1 << 20}},
                                       .data = {"random", "below_100"}};
    return facts;
  }

  PlainFields fields() const { return {{"n", 1}}; }
  std::int64_t input_words() const { return length; }
  std::int64_t output_words() const { return 1; }

  /// Random: any bits, so that each word left out or added twice shows. Below 100, as the posts'.
  __host__ __device__ constexpr std::uint32_t input(std::int64_t at, std::uint64_t seed) const {
    const auto word =
        static_cast<std::uint32_t>(reference::mix((seed << 40) + static_cast<std::uint64_t>(at)));
    return data == 0 ? word : word % 100;
  }
  void reference(std::span<const std::uint32_t> input, std::span<std::uint32_t> output) const {
    output[0] = std::accumulate(input.begin(), input.end(), std::uint32_t{0});
  }
  Problem problem(const void* input, void* output, void* workspace) const {
    return {.input = static_cast<const std::uint32_t*>(input),
            .output = static_cast<std::uint32_t*>(output),
            .n = length,
            .workspace = workspace};
  }
};

PlainFamily<Sum> family;

}  // namespace
}  // namespace reprolab::reduction
