// Checks outputs of transpose kernels on the device, in place. Every word of the input follows from
// its position, so every word of the output is known without an expected array. Thousands of shapes
// take seconds, and matrices too large for a host are checked completely.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "kernels/transpose/problem.hpp"
#include "profiling/cuda_check.hpp"
#include "reference/transpose/transpose.hpp"

namespace reprolab::transpose {

/// The words that inputs hold.
enum class Words {
  any,    ///< All 32-bit patterns, including NaNs with payloads; no two of 2^32 are the same.
  finite  ///< reference::distinct_value_bits, for kernels that compute with the values.
};

/// Word `index` of an input.
constexpr std::uint32_t word_at(Words words, std::uint64_t index) {
  if (words == Words::finite) return reference::distinct_value_bits(index, 1);
  // Each step is a permutation of the 32-bit numbers.
  auto bits = static_cast<std::uint32_t>(index);
  bits = (bits ^ bits >> 16) * 0x7feb352du;
  bits = (bits ^ bits >> 15) * 0x846ca68bu;
  return bits ^ bits >> 16;
}

/// Fills outputs, the gaps between their rows and the guards around them.
inline constexpr int untouched_byte = 0xa5;
inline constexpr std::uint32_t untouched = 0xa5a5a5a5u;

/// A matrix in the check's memory; strides and offsets in words.
struct Placement {
  std::int64_t rows = 0, columns = 0;  ///< The input's size.
  std::int64_t in_stride = 0, out_stride = 0;
  int in_offset = 0, out_offset = 0;  ///< From a multiple of 256 bytes to the first element.

  constexpr std::int64_t input_words() const {
    return rows == 0 || columns == 0 ? 0 : (rows - 1) * in_stride + columns;
  }
  constexpr std::int64_t output_words() const {
    return rows == 0 || columns == 0 ? 0 : (columns - 1) * out_stride + rows;
  }
};

/// A matrix without padding between its rows.
constexpr Placement tight(std::int64_t rows, std::int64_t columns) {
  return {.rows = rows, .columns = columns, .in_stride = columns, .out_stride = rows};
}

/// The expected word at `at` after a transpose; `at` counts from the output's first element and is
/// negative in the guard before it.
constexpr std::uint32_t wanted_word(const Placement& matrix, Words words, std::int64_t at) {
  if (at < 0 || at >= matrix.output_words()) return untouched;
  const std::int64_t row = at / matrix.out_stride, column = at % matrix.out_stride;
  if (column >= matrix.rows) return untouched;
  return word_at(words,
                 static_cast<std::uint64_t>(matrix.in_offset + column * matrix.in_stride + row));
}

/// The result of a check.
struct Wrong {
  std::int64_t words = 0;  ///< Number of wrong words.
  std::int64_t first = 0;  ///< Position of the first wrong word, if any; as `at` of wanted_word.
};

class PlaceCheck {
 public:
  /// Words before and after each output that are checked too: farther than a block reaches.
  static constexpr std::int64_t guard = 1 << 15;
  static constexpr int max_checks = 1024;  ///< Most checks between two calls of results().

  /// For inputs and outputs of up to these numbers of words. faulty_kernels_test.cpp tests that it
  /// finds faults.
  PlaceCheck(Words words, std::int64_t input_words, std::int64_t output_words, cudaStream_t stream);

  /// Device memory that a check of matrices of these sizes takes.
  static std::uint64_t bytes(std::int64_t input_words, std::int64_t output_words);

  Problem problem(const Placement& matrix) const;

  /// Enqueues filling the output and its guards with `untouched_byte`.
  void poison(const Placement& matrix);
  /// Enqueues comparing output, gaps and guards with their expected words.
  void check(const Placement& matrix);
  /// The results of the checks since the last call, in order. Waits for them.
  std::vector<Wrong> results();

  /// Number of words of the input that have changed. Waits. Needs room for a check.
  std::int64_t changed_input_words();

 private:
  struct Counted {
    unsigned long long words, farthest_from_end;
  };

  std::uint32_t* output(const Placement& matrix) const;
  void compare_words(const std::uint32_t* words, const Placement& matrix, std::int64_t begin,
                     std::int64_t end);

  Words words_;
  std::int64_t input_words_;
  cudaStream_t stream_;
  profiling::DeviceBuffer input_, output_, counted_;
  std::vector<std::int64_t> ends_;  ///< End of the range of each check.
};

}  // namespace reprolab::transpose
