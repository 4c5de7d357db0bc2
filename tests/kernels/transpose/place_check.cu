#include <stdexcept>

#include "tests/kernels/transpose/place_check.hpp"

namespace reprolab::transpose {
namespace {

constexpr int threads = 256;
constexpr std::int64_t max_blocks = 8192;

unsigned blocks_for(std::int64_t words) {
  const std::int64_t blocks = (words + threads - 1) / threads;
  return static_cast<unsigned>(blocks < max_blocks ? blocks : max_blocks);
}

__device__ std::int64_t first_of_thread() {
  return std::int64_t{blockIdx.x} * threads + threadIdx.x;
}
__device__ std::int64_t step() { return std::int64_t{gridDim.x} * threads; }

__global__ void fill(std::uint32_t* input, std::int64_t count, Words words) {
  for (std::int64_t i = first_of_thread(); i < count; i += step()) {
    input[i] = word_at(words, static_cast<std::uint64_t>(i));
  }
}

/// Compares the words [begin, end) around `output`; the first wrong one is farthest from the end.
__global__ void compare(const std::uint32_t* output, Placement matrix, Words words,
                        std::int64_t begin, std::int64_t end, unsigned long long* wrong_words,
                        unsigned long long* farthest_from_end) {
  for (std::int64_t at = begin + first_of_thread(); at < end; at += step()) {
    if (output[at] == wanted_word(matrix, words, at)) continue;
    atomicAdd(wrong_words, 1ull);
    atomicMax(farthest_from_end, static_cast<unsigned long long>(end - at));
  }
}

std::uint64_t bytes_of(std::int64_t words) { return 4 * static_cast<std::uint64_t>(words); }

/// Room for the offsets of a placement, rounded up.
constexpr std::int64_t room = 64;

}  // namespace

PlaceCheck::PlaceCheck(Words words, std::int64_t input_words, std::int64_t output_words,
                       cudaStream_t stream)
    : words_(words),
      input_words_(input_words + room),
      stream_(stream),
      input_(bytes_of(input_words_)),
      output_(bytes_of(output_words + room + 2 * guard)),
      counted_(max_checks * sizeof(Counted)) {
  fill<<<blocks_for(input_words_), threads, 0, stream_>>>(input_.as<std::uint32_t>(), input_words_,
                                                          words_);
  profiling::check(cudaGetLastError(), "filling an input");
  profiling::check(cudaMemsetAsync(counted_.data(), 0, counted_.bytes(), stream_),
                   "clearing counts");
}

std::uint64_t PlaceCheck::bytes(std::int64_t input_words, std::int64_t output_words) {
  return bytes_of(input_words + output_words + 2 * room + 2 * guard) + max_checks * sizeof(Counted);
}

Problem PlaceCheck::problem(const Placement& matrix) const {
  if (matrix.in_offset + matrix.input_words() > input_words_) {
    throw std::logic_error("a matrix larger than the check was made for");
  }
  return {.input = input_.as<float>() + matrix.in_offset,
          .output = reinterpret_cast<float*>(output(matrix)),
          .rows = matrix.rows,
          .columns = matrix.columns,
          .in_stride = matrix.in_stride,
          .out_stride = matrix.out_stride};
}

std::uint32_t* PlaceCheck::output(const Placement& matrix) const {
  if (bytes_of(matrix.out_offset + matrix.output_words() + 2 * guard) > output_.bytes()) {
    throw std::logic_error("an output larger than the check was made for");
  }
  return output_.as<std::uint32_t>() + guard + matrix.out_offset;
}

void PlaceCheck::poison(const Placement& matrix) {
  profiling::check(cudaMemsetAsync(output(matrix) - guard, untouched_byte,
                                   bytes_of(matrix.output_words() + 2 * guard), stream_),
                   "poisoning an output");
}

void PlaceCheck::check(const Placement& matrix) {
  compare_words(output(matrix), matrix, -guard, matrix.output_words() + guard);
}

void PlaceCheck::compare_words(const std::uint32_t* words, const Placement& matrix,
                               std::int64_t begin, std::int64_t end) {
  if (ends_.size() == max_checks) throw std::logic_error("more checks than are counted");
  Counted* const counted = counted_.as<Counted>() + ends_.size();
  compare<<<blocks_for(end - begin), threads, 0, stream_>>>(
      words, matrix, words_, begin, end, &counted->words, &counted->farthest_from_end);
  profiling::check(cudaGetLastError(), "comparing words");
  ends_.push_back(end);
}

std::vector<Wrong> PlaceCheck::results() {
  std::vector<Counted> counted(ends_.size());
  const std::uint64_t bytes = counted.size() * sizeof(Counted);
  profiling::check(
      cudaMemcpyAsync(counted.data(), counted_.data(), bytes, cudaMemcpyDeviceToHost, stream_),
      "reading counts");
  profiling::check(cudaMemsetAsync(counted_.data(), 0, bytes, stream_), "clearing counts");
  profiling::check(cudaStreamSynchronize(stream_), "checking outputs");
  std::vector<Wrong> all;
  for (std::size_t i = 0; i < counted.size(); ++i) {
    all.push_back({static_cast<std::int64_t>(counted[i].words),
                   ends_[i] - static_cast<std::int64_t>(counted[i].farthest_from_end)});
  }
  ends_.clear();
  return all;
}

std::int64_t PlaceCheck::changed_input_words() {
  // The words of the input are those of the transpose of one long column.
  compare_words(input_.as<std::uint32_t>(),
                {.rows = input_words_, .columns = 1, .in_stride = 1, .out_stride = input_words_}, 0,
                input_words_);
  return results().back().words;
}

}  // namespace reprolab::transpose
