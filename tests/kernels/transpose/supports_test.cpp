// Problems that each kernel refuses, and the reasons.
#include "kernels/transpose/support.hpp"

#include <gtest/gtest.h>

#include "kernels/registry.hpp"
#include "tests/on_gpu.hpp"
#include "tests/text.hpp"

namespace reprolab::transpose {
namespace {

constexpr const char* needs_float4s =
    "needs rows and columns in multiples of 4, and rows that begin at multiples of 16 bytes";

/// An address that is never read, `bytes_off` bytes past a multiple of 16.
template <class Pointer>
Pointer address(std::uintptr_t bytes_off) {
  return reinterpret_cast<Pointer>((std::uintptr_t{1} << 20) + bytes_off);
}

/// Aligned in every way, with padding between the rows.
Problem aligned_problem() {
  return {.input = address<const float*>(0),
          .output = address<float*>(0),
          .rows = 64,
          .columns = 96,
          .in_stride = 100,
          .out_stride = 68};
}

/// The aligned problem, each time with one fault: a pointer or stride that does not begin rows at
/// multiples of 16 bytes, or rows or columns that are not a multiple of 4.
std::vector<Problem> ragged_problems() {
  std::vector<Problem> problems;
  for (const int less : {1, 2, 3}) {
    problems.insert(problems.end(), 6, aligned_problem());
    Problem* const one = &problems.back() - 5;
    one[0].input = address<const float*>(4 * static_cast<std::uintptr_t>(less));
    one[1].output = address<float*>(4 * static_cast<std::uintptr_t>(less));
    one[2].in_stride -= less;
    one[3].out_stride -= less;
    one[4].rows -= less;
    one[5].columns -= less;
  }
  return problems;
}

TEST(TransposeSupports, TiledRefusesRaggedMatricesAndColumnWalkRefusesNone) {
  EXPECT_TRUE(moves_in_float4s(aligned_problem()));
  EXPECT_TRUE(kernel_named<Problem>("tiled").supports(aligned_problem()).ok);
  for (const Problem& problem : ragged_problems()) {
    EXPECT_EQ(kernel_named<Problem>("tiled").supports(problem).reason, needs_float4s);
    EXPECT_TRUE(kernel_named<Problem>("column_walk").supports(problem).ok);
  }
}

TEST(TransposeSupports, CublasRefusesStridesPast32Bits) {
  constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
  const auto cublas = kernel_named<Problem>("cublas_sgeam");
  const std::string own_words = cublas.supports(aligned_problem()).reason;
  EXPECT_TRUE(matches(own_words, "(cuBLAS: .+)?"));
  EXPECT_EQ(cublas.supports(ragged_problems().front()).reason, own_words);
  for (const std::int64_t stride : {most, most + 1}) {
    Problem input = aligned_problem(), output = aligned_problem();
    input.in_stride = output.out_stride = stride;
    const std::string wanted = stride > most ? "cuBLAS counts strides in 32 bits" : own_words;
    EXPECT_EQ(cublas.supports(input).reason, wanted);
    EXPECT_EQ(cublas.supports(output).reason, wanted);
  }
}

constexpr const char* tma_kernels[] = {"tma_naive", "tma_swizzle", "tma_batched",
                                       "tma_batched_as_published"};

class OnGpuTransposeSupports : public OnGpuTest {};

/// It stores whole groups of 16 bytes, even past the end of a row; and the driver's descriptions of
/// matrices have a limit.
TEST_F(OnGpuTransposeSupports, TmaTakesAlignedRowsLessThan2To40BytesApart) {
  constexpr std::int64_t too_far = std::int64_t{1} << 38;  // elements
  for (const char* name : tma_kernels) {
    const auto kernel = kernel_named<Problem>(name);
    if (const Support on_gpu = kernel.supports(Problem{}); !on_gpu.ok) {
      GTEST_SKIP() << "NOT TESTED, " << on_gpu.reason;
    }
    EXPECT_TRUE(kernel.supports(aligned_problem()).ok) << name;
    for (const Problem& problem : ragged_problems()) {
      EXPECT_EQ(kernel.supports(problem).reason, needs_float4s) << name;
    }
    for (const std::int64_t stride : {too_far, too_far - 4}) {
      Problem input = aligned_problem(), output = aligned_problem();
      input.in_stride = output.out_stride = stride;
      const char* wanted = stride == too_far ? "needs rows less than 2^40 bytes apart" : "";
      EXPECT_EQ(kernel.supports(input).reason, wanted) << name;
      EXPECT_EQ(kernel.supports(output).reason, wanted) << name;
    }
  }
}

}  // namespace
}  // namespace reprolab::transpose
