// Every kernel on every small shape, with rows of any alignment, and on shapes at which a kernel
// switches to another tile, order or cache hint. Outputs are compared bit for bit; the gaps between
// their rows and the memory before and after them must stay unchanged.
#include "tests/kernels/transpose/on_gpu.hpp"

namespace reprolab::transpose {
namespace {

constexpr std::int64_t longest = 130;  // two tiles of 64, four of 32, and a bit
constexpr std::int64_t small_words = longest * (longest + 16);

class OnGpuTransposeShapes : public OnGpuEachTranspose {};

constexpr std::int64_t next_multiple_of_4(std::int64_t length) { return (length + 3) / 4 * 4; }

/// Whether the kernel declares support for rows of any alignment.
bool runs_any_matrix(const VariantInfo& kernel) {
  const Problem problem{.rows = 3, .columns = 5, .in_stride = 7, .out_stride = 9};
  return kernel_named<Problem>(kernel.name).supports(problem).ok;
}

/// Without padding, with padding to multiples of 16 bytes, as the tensor memory accelerator
/// requires, and with odd padding, so that every row of the output starts at another place within
/// 32 bytes.
TEST_P(OnGpuTransposeShapes, EveryMatrixUpTo130WithAndWithoutPadding) {
  ManyMatrices tight_ones(GetParam(), small_words, small_words);
  ManyMatrices aligned_ones(GetParam(), small_words, small_words);
  ManyMatrices odd_ones(GetParam(), small_words, small_words);
  for (std::int64_t rows = 1; rows <= longest; ++rows) {
    for (std::int64_t columns = 1; columns <= longest; ++columns) {
      tight_ones.run(tight(rows, columns));
      aligned_ones.run({.rows = rows,
                        .columns = columns,
                        .in_stride = next_multiple_of_4(columns) + 4,
                        .out_stride = next_multiple_of_4(rows) + 8});
      odd_ones.run(
          {.rows = rows, .columns = columns, .in_stride = columns + 3, .out_stride = rows + 5});
    }
  }
  EXPECT_GE(tight_ones.expect_transposed(), 32 * 32) << "multiples of 4, which every kernel runs";
  EXPECT_GE(aligned_ones.expect_transposed(), 32 * 32);
  // columns and columns + 3 are never both multiples of 4: other kernels refuse every one of these.
  EXPECT_EQ(odd_ones.expect_transposed(), runs_any_matrix(GetParam()) ? longest * longest : 0);
}

/// Ends of every unit that a kernel counts in, and their neighbours.
constexpr std::int64_t lengths[] = {1,  2,  3,  4,  5,  7,  8,  9,  24, 25,  26,
                                    31, 32, 33, 57, 63, 64, 65, 66, 96, 128, 130};

TEST_P(OnGpuTransposeShapes, PointersOfAnyAlignment) {
  ManyMatrices matrices(GetParam(), small_words, small_words);
  for (const std::int64_t rows : lengths) {
    for (const std::int64_t columns : lengths) {
      for (int in_offset = 0; in_offset < 4; ++in_offset) {
        for (int out_offset = 0; out_offset < 8; ++out_offset) {
          for (const std::int64_t room : {0, 1, 4}) {
            matrices.run({.rows = rows,
                          .columns = columns,
                          .in_stride = columns + room,
                          .out_stride = rows + room,
                          .in_offset = in_offset,
                          .out_offset = out_offset});
          }
        }
      }
    }
  }
  EXPECT_GT(matrices.expect_transposed(), 0);
}

TEST_P(OnGpuTransposeShapes, EmptyMatricesSucceedAndWriteNothing) {
  ManyMatrices matrices(GetParam(), small_words, small_words);
  for (const std::int64_t length : {0, 4, 128}) {
    matrices.run({.rows = 0, .columns = length, .in_stride = 128, .out_stride = 128});
    matrices.run({.rows = length, .columns = 0, .in_stride = 128, .out_stride = 128});
  }
  EXPECT_EQ(matrices.expect_transposed(), 6);
}

/// column_walk takes larger tiles from 8 blocks per multiprocessor up, keeps what it reads in L2
/// from 4 times L2 up, and walks down two columns if rows are a multiple of 128 KiB apart; each
/// with whole tiles and with tiles that the matrix cuts off, also for rows of any alignment.
TEST_P(OnGpuTransposeShapes, LargeEnoughForEveryTileOrderAndCacheHint) {
  constexpr Placement shapes[] = {
      tight(2560, 2560),
      tight(2564, 3076),
      tight(2561, 2563),
      tight(8192, 8256),
      tight(8196, 10308),
      tight(8195, 10309),
      tight(4096, 32768),
      {.rows = 2052, .columns = 32700, .in_stride = 32768, .out_stride = 2056},
      {.rows = 2053, .columns = 32701, .in_stride = 32768, .out_stride = 2056},
      {.rows = 1 << 20, .columns = 68, .in_stride = 68, .out_stride = 1 << 20},
      {.rows = 68, .columns = 1 << 20, .in_stride = 1 << 20, .out_stride = 68},
      {.rows = (1 << 25) + 1, .columns = 3, .in_stride = 3, .out_stride = (1 << 25) + 1},
      {.rows = 3, .columns = (1 << 25) + 1, .in_stride = (1 << 25) + 1, .out_stride = 3},
  };
  std::int64_t input_words = 0, output_words = 0;
  for (const Placement& matrix : shapes) {
    input_words = std::max(input_words, matrix.input_words());
    output_words = std::max(output_words, matrix.output_words());
  }
  ManyMatrices matrices(GetParam(), input_words, output_words);
  for (const Placement& matrix : shapes) matrices.run(matrix);
  EXPECT_GE(matrices.expect_transposed(), 8) << "those in multiples of 4";
}

INSTANTIATE_TEST_SUITE_P(Kernels, OnGpuTransposeShapes, testing::ValuesIn(exact_kernels()),
                         name_of);

/// Matrices of 2^32 elements, which cannot be counted in 32 bits and do not fit most hosts: 16 GiB
/// in and 16 GiB out, checked on the device.
class OnGpuTransposeLargeMatrices : public OnGpuEachTranspose {};

TEST_P(OnGpuTransposeLargeMatrices, Of65536By65536AndOfUnalignedRowsAreTransposed) {
  constexpr std::int64_t words = std::int64_t{1} << 32;
  const std::string why = lacks_memory(PlaceCheck::bytes(words, words) + (std::uint64_t{1} << 30));
  if (!why.empty()) GTEST_SKIP() << why;
  ManyMatrices matrices(GetParam(), words, words);
  matrices.run(tight(65536, 65536));
  matrices.run(tight(65537, 65535));  // unaligned rows, for the kernels that support them
  EXPECT_GE(matrices.expect_transposed(), 1);
}

INSTANTIATE_TEST_SUITE_P(Kernels, OnGpuTransposeLargeMatrices, testing::ValuesIn(exact_kernels()),
                         name_of);

}  // namespace
}  // namespace reprolab::transpose
