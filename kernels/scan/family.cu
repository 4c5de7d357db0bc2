// Prefix sums of 32-bit words modulo 2^32, which restart with every segment.
#include "harness/plain_family.cuh"
#include "kernels/scan/problem.hpp"
#include "reference/nf4/nf4.hpp"

namespace reprolab::scan {
namespace {

struct Scan {
  using Problem = scan::Problem;

  std::int64_t segments = 0, segment = 0;
  int data = 0;

  static const PlainFacts<Scan>& facts() {
    static const PlainFacts<Scan> facts{
        .family = {.name = "scan", .size_option = "--segments", .profiled_size = "2097152x512"},
        .element = "sum",
        .numbers = {{{.name = "segments"}, &Scan::segments}, {{.name = "segment"}, &Scan::segment}},
        .usual = {{1 << 22, 1 << 8}, {1 << 21, 1 << 9}, {1, 1 << 30}},  // the post's vector
        .small = {{1, 1000}, {7, 256}, {300, 512}},
        .data = {"random"}};
    return facts;
  }

  PlainFields fields() const { return {{"n", segments * segment}}; }
  std::int64_t input_words() const { return segments * segment; }
  std::int64_t output_words() const { return segments * segment; }

  /// Any bits, so that each word left out or added twice shows: differences of random words, whose
  /// sums are known at each place.
  __host__ __device__ static constexpr std::uint32_t word(std::int64_t at, std::uint64_t seed) {
    return static_cast<std::uint32_t>(
        reference::mix((seed << 40) + static_cast<std::uint64_t>(at)));
  }
  __host__ __device__ constexpr std::uint32_t input(std::int64_t at, std::uint64_t seed) const {
    return word(at + 1, seed) - word(at, seed);
  }
  __host__ __device__ constexpr std::uint32_t output(std::int64_t at, std::uint64_t seed) const {
    return word(at + 1, seed) - word(at / segment * segment, seed);
  }
  void reference(std::span<const std::uint32_t> input, std::span<std::uint32_t> output) const {
    std::uint32_t sum = 0;
    for (std::int64_t i = 0; i < segments * segment; ++i) {
      output[i] = sum = input[i] + (i % segment == 0 ? 0 : sum);
    }
  }
  Problem problem(const void* input, void* output, void* workspace) const {
    return {.input = static_cast<const std::uint32_t*>(input),
            .output = static_cast<std::uint32_t*>(output),
            .segments = segments,
            .segment = segment,
            .workspace = workspace};
  }
};

PlainFamily<Scan> family;

}  // namespace
}  // namespace reprolab::scan
