// Outputs of transpose kernels checked on the device, in place: every word of the input follows
// from where it lies, so what each word of the output must be is known without an expected array.
// Shapes by the thousand take seconds, and matrices that no host holds are checked whole.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "kernels/transpose/problem.hpp"
#include "profiling/cuda_check.hpp"
#include "reference/transpose.hpp"

namespace reprolab::transpose {

/// What inputs hold.
enum class Words {
  any,    ///< All patterns of 32 bits, NaNs with payloads among them; no two of 2^32 are the same.
  finite  ///< reference::distinct_value_bits, for kernels that compute with the values.
};

/// Word `index` of an input.
constexpr std::uint32_t word_at(Words words, std::uint64_t index) {
  if (words == Words::finite) return reference::distinct_value_bits(index, 1);
  // One to one on 32 bits at each step.
  auto bits = static_cast<std::uint32_t>(index);
  bits = (bits ^ bits >> 16) * 0x7feb352du;
  bits = (bits ^ bits >> 15) * 0x846ca68bu;
  return bits ^ bits >> 16;
}

/// What outputs, the gaps between their rows and the guards around them are filled with.
inline constexpr int untouched_byte = 0xa5;
inline constexpr std::uint32_t untouched = 0xa5a5a5a5u;

/// A matrix that lies in the check's memory; strides and offsets in words.
struct Placement {
  std::int64_t rows = 0, columns = 0;  ///< Of the input.
  std::int64_t in_stride = 0, out_stride = 0;
  int in_offset = 0, out_offset = 0;  ///< From a multiple of 256 bytes to the first element.

  constexpr std::int64_t input_words() const {
    return rows == 0 || columns == 0 ? 0 : (rows - 1) * in_stride + columns;
  }
  constexpr std::int64_t output_words() const {
    return rows == 0 || columns == 0 ? 0 : (columns - 1) * out_stride + rows;
  }
};

/// A matrix without room between its rows.
constexpr Placement tight(std::int64_t rows, std::int64_t columns) {
  return {.rows = rows, .columns = columns, .in_stride = columns, .out_stride = rows};
}

/// What word `at` must be after a transpose; it counts from the output's first element, and is
/// negative in the guard before it.
constexpr std::uint32_t wanted_word(const Placement& matrix, Words words, std::int64_t at) {
  if (at < 0 || at >= matrix.output_words()) return untouched;
  const std::int64_t row = at / matrix.out_stride, column = at % matrix.out_stride;
  if (column >= matrix.rows) return untouched;
  return word_at(words,
                 static_cast<std::uint64_t>(matrix.in_offset + column * matrix.in_stride + row));
}

/// What a check found.
struct Wrong {
  std::int64_t words = 0;  ///< How many are not as wanted.
  std::int64_t first = 0;  ///< Where the first of them is, if any; as `at` of wanted_word.
};

class PlaceCheck {
 public:
  /// Words before and behind each output that are checked with it: farther than a block reaches.
  static constexpr std::int64_t guard = 1 << 15;
  static constexpr int most_checks = 1024;  ///< Between two calls of found().

  /// For inputs and outputs of up to so many words. Checks a transpose made on the host with a
  /// flipped bit, two elements swapped, one unwritten, a gap and both guards touched, and throws
  /// std::logic_error unless each is found where it is: an instance is a proof.
  PlaceCheck(Words words, std::int64_t input_words, std::int64_t output_words, cudaStream_t stream);

  /// Device memory that a check of such matrices takes.
  static std::uint64_t bytes(std::int64_t input_words, std::int64_t output_words);

  Problem problem(const Placement& matrix) const;

  /// Enqueues: fills the output and its guards with `untouched_byte`.
  void poison(const Placement& matrix);
  /// Enqueues: compares output, gaps and guards with what they must be.
  void check(const Placement& matrix);
  /// What the checks since the last call found, in their order. Waits for them.
  std::vector<Wrong> found();

  /// Words of the input that are no longer what they were. Waits.
  std::int64_t changed_input_words() const;

 private:
  struct Counted {
    unsigned long long words, farthest_from_end;
  };

  std::uint32_t* output(const Placement& matrix) const;
  void prove();

  Words words_;
  std::int64_t input_words_;
  cudaStream_t stream_;
  profiling::DeviceBuffer input_, output_, counted_;
  std::vector<std::int64_t> ends_;  ///< Of what was checked, one a check.
};

}  // namespace reprolab::transpose
