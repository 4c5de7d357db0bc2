// The output that tma_batched_as_published declares, compared with a step-by-step simulation of the
// kernel on the host, and with a GPU's output.
#include "kernels/transpose/swizzle.hpp"
#include "tests/kernels/transpose/on_gpu.hpp"

namespace reprolab::transpose {
namespace {

using Bits = std::vector<std::uint32_t>;

/// The place to which the tensor memory accelerator copies an element of a tile: 16-byte chunks
/// XORed with the row.
int in_shared(int row, int column) {
  return row * 32 + ((column / 4) ^ (row % 8)) * 4 + column % 4;
}

Bits input_of(const Placement& matrix) {
  Bits input(static_cast<std::size_t>(matrix.input_words()));
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = word_at(Words::any, i);
  return input;
}

Bits untouched_output(const Placement& matrix) {
  return Bits(static_cast<std::size_t>(matrix.output_words()), untouched);
}

/// Simulates the kernel, tile by tile and thread by thread.
Bits acted_out(const Bits& input, const Placement& matrix) {
  Bits output = untouched_output(matrix);
  for (std::int64_t first_row = 0; first_row < matrix.rows; first_row += 32) {
    for (std::int64_t first_column = 0; first_column < matrix.columns; first_column += 32) {
      std::uint32_t in[32 * 32] = {}, out[32 * 32];
      for (int row = 0; row < 32; ++row) {
        for (int column = 0; column < 32; ++column) {
          const std::int64_t from_row = first_row + row, from_column = first_column + column;
          if (from_row >= matrix.rows || from_column >= matrix.columns) continue;
          in[in_shared(row, column)] =
              input[static_cast<std::size_t>(from_row * matrix.in_stride + from_column)];
        }
      }
      for (int j = 0; j < 8; ++j) {
        for (int thread = 0; thread < 128; ++thread) {
          const auto [from, to] = published_move(thread, j);
          out[to] = in[from];
        }
      }
      for (int row = 0; row < 32; ++row) {
        for (int column = 0; column < 32; ++column) {
          const std::int64_t to_row = first_column + row, to_column = first_row + column;
          if (to_row >= matrix.columns || to_column >= matrix.rows) continue;
          output[static_cast<std::size_t>(to_row * matrix.out_stride + to_column)] =
              out[in_shared(row, column)];
        }
      }
    }
  }
  return output;
}

Problem on_host(const Bits& input, const Placement& matrix, Bits& output) {
  return {.input = reinterpret_cast<const float*>(input.data()),
          .output = reinterpret_cast<float*>(output.data()),
          .rows = matrix.rows,
          .columns = matrix.columns,
          .in_stride = matrix.in_stride,
          .out_stride = matrix.out_stride};
}

/// The kernel's declared output, made in pieces of `piece` elements.
Bits declared(const Bits& input, const Placement& matrix, std::int64_t piece = 1 << 20) {
  Bits output = untouched_output(matrix);
  const Problem problem = on_host(input, matrix, output);
  const auto& deviation = declared_deviation<Problem>("tma_batched_as_published");
  for (std::int64_t at = 0; at < matrix.output_words(); at += piece) {
    const std::int64_t end = std::min(at + piece, matrix.output_words());
    deviation.expected_output(problem, at, end);
    EXPECT_TRUE(end == matrix.output_words() || output[static_cast<std::size_t>(end)] == untouched)
        << "too many";
  }
  return output;
}

/// Whole tiles, tiles that the matrix cuts off anywhere, and padded rows that begin at multiples of
/// 16 bytes, as the kernel requires.
std::vector<Placement> matrices() {
  std::vector<Placement> all;
  for (const std::int64_t rows : {1, 2, 3, 4, 5, 29, 31, 32, 33, 36, 63, 64, 68, 100, 128}) {
    for (const std::int64_t columns : {1, 3, 4, 27, 28, 32, 35, 64, 65, 96, 132}) {
      const std::int64_t in_stride = (columns + 3) / 4 * 4, out_stride = (rows + 3) / 4 * 4;
      for (const int room : {0, 4, 8}) {
        all.push_back({.rows = rows,
                       .columns = columns,
                       .in_stride = in_stride + room,
                       .out_stride = out_stride + 2 * room});
      }
    }
  }
  return all;
}

TEST(PublishedIndices, DeclareTheSimulatedKernelsOutputForPiecesOfAnySize) {
  for (const Placement& matrix : matrices()) {
    const Bits input = input_of(matrix), expected = acted_out(input, matrix);
    EXPECT_EQ(declared(input, matrix), expected) << describe(matrix);
    if (matrix.rows == 33) {
      EXPECT_EQ(declared(input, matrix, 7), expected) << describe(matrix);
    }
  }
}

class OnGpuPublishedIndices : public OnGpuTest {};

/// On every matrix, the kernel's output equals the declared one.
void expect_declared(const Kernel<Problem>& kernel) {
  int ran = 0;
  for (const Placement& matrix : matrices()) {
    const Bits input = input_of(matrix), expected = declared(input, matrix);
    const profiling::DeviceBuffer on_device(input.size() * sizeof(input[0]));
    profiling::check(
        cudaMemcpy(on_device.data(), input.data(), on_device.bytes(), cudaMemcpyHostToDevice),
        "copying an input");
    Bits actual(expected.size());
    const GuardedOutput output(actual.size() * sizeof(actual[0]));
    Problem problem = on_host(input, matrix, actual);
    problem.input = on_device.as<float>();
    problem.output = static_cast<float*>(output.data());
    if (!kernel.supports(problem).ok) continue;
    ++ran;
    ASSERT_EQ(kernel.launch(problem, nullptr), cudaSuccess) << describe(matrix);
    profiling::check(cudaMemcpy(actual.data(), output.data(), actual.size() * sizeof(actual[0]),
                                cudaMemcpyDeviceToHost),
                     "reading an output");
    const auto comparison = reference::compare_bits(expected, actual);
    EXPECT_TRUE(comparison.equal())
        << describe(matrix) << ": " << comparison.mismatches
        << " words differ from the declared ones, the first at " << comparison.first_mismatch;
    EXPECT_TRUE(output.touched().empty()) << describe(matrix);
  }
  EXPECT_GE(ran, 3);
}

/// In CUDA, and in Mojo where that is built.
TEST_F(OnGpuPublishedIndices, WriteTheDeclaredOutputOnTheGpuAndNothingElse) {
  require_compiled_kernels();
  for (const auto& [name, kernel] : Registry<Problem>::instance().kernels()) {
    if (is_bit_exact(kernel)) continue;
    if (const Support support = kernel.supports(Problem{}); !support.ok) {
      GTEST_SKIP() << "NOT TESTED, " << name << ": " << support.reason;
    }
    expect_declared(kernel);
  }
}

}  // namespace
}  // namespace reprolab::transpose
