// Checks that the harness detects a wrong transpose, and that a sound one passes: kernels with one
// planted fault each, one element per thread, for any matrix.
#include "kernels/transpose/support.hpp"
#include "tests/kernels/register_all.hpp"
#include "tests/kernels/testing.hpp"
#include "tests/text.hpp"

namespace reprolab::transpose {
namespace {

constexpr int threads = 256;

/// No fault; each faulty kernel differs from it in one member. Rows and columns are the output's.
struct Sound {
  __device__ static bool skips(std::int64_t, std::int64_t, const Problem&) { return false; }
  __device__ static std::int64_t column(std::int64_t, std::int64_t column) { return column; }
  __device__ static float value(float value) { return value; }
};

/// Swaps the first two elements of the output's first row.
struct SwapsTwo : Sound {
  __device__ static std::int64_t column(std::int64_t row, std::int64_t column) {
    return row == 0 && column < 2 ? 1 - column : column;
  }
};

struct SkipsLastColumn : Sound {
  __device__ static bool skips(std::int64_t, std::int64_t column, const Problem& problem) {
    return column == problem.rows - 1;
  }
};

/// Does not write the second tile of 32 x 32 in both directions.
struct SkipsTile : Sound {
  __device__ static bool skips(std::int64_t row, std::int64_t column, const Problem&) {
    return row / 32 == 1 && column / 32 == 1;
  }
};

/// The same numbers, but not the same bits: -0.0 becomes 0.0, and NaNs lose their payloads.
struct AddsZero : Sound {
  __device__ static float value(float value) { return value + 0.0f; }
};

template <class Fault>
__global__ void transpose(const Problem problem) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= problem.rows * problem.columns) return;
  const std::int64_t row = i / problem.rows, column = i % problem.rows;
  if (Fault::skips(row, column, problem)) return;
  problem.output[row * problem.out_stride + Fault::column(row, column)] =
      Fault::value(problem.input[column * problem.in_stride + row]);
}

template <class Fault>
cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  const auto blocks =
      static_cast<unsigned>((problem.rows * problem.columns + threads - 1) / threads);
  transpose<Fault><<<blocks, threads, 0, stream>>>(problem);
  return cudaGetLastError();
}

__global__ void write(float* to) { *to = 1.0f; }

cudaError_t launch_and_write_to_gap(const Problem& problem, cudaStream_t stream) {
  const cudaError_t status = launch<Sound>(problem, stream);
  write<<<1, 1, 0, stream>>>(problem.output + problem.rows);
  return status;
}

const RegisterAll<Problem> kernels({.source_file = "tests/kernels/transpose/faulty_kernels_test.cu",
                                    .supports = supports_tiles},
                                   {{"test_sound", launch<Sound>},
                                    {"test_swaps_two", launch<SwapsTwo>},
                                    {"test_skips_last_column", launch<SkipsLastColumn>},
                                    {"test_skips_tile", launch<SkipsTile>},
                                    {"test_adds_zero", launch<AddsZero>},
                                    {"test_writes_to_gap", launch_and_write_to_gap}});

class OnGpuFaultyTranspose : public OnGpuTest {
 protected:
  /// `reason`: a regular expression; "": it is bit-exact.
  static void expect(const std::string& kernel, const std::string& matrix,
                     const std::string& reason, const std::string& data = "random", int sets = 3) {
    const auto problem = planned("transpose", "--matrix " + matrix, data).at(0);
    const auto verdict = Proof().verify(variant_named<Problem>(kernel), *problem.prepare(sets, 1));
    EXPECT_EQ(name(verdict.outcome), name(reason.empty() ? Outcome::bit_exact : Outcome::mismatch))
        << kernel << " on " << problem.facts.name;
    EXPECT_TRUE(matches(verdict.reason, reason)) << kernel;
  }
};

/// The first element of the data is -0.0, which a kernel that computes makes 0.0. If all values are
/// 1, a swap of two is not detected, but a missing write is.
TEST_F(OnGpuFaultyTranspose, AWrongOneIsAMismatchFromItsFirstElement) {
  // An output of 70 rows of 100 elements, with 4 between them.
  const std::string one = "100x70 --padding 4";
  const std::string first_at = " of 7000 elements differ; first at row ";
  const std::string bits = "0x[0-9a-f]{8} \\([-.0-9e]+\\)";
  for (const auto& matrix : {one, std::string("1x1"), std::string("333x1001")}) {
    expect("test_sound", matrix, "");
  }
  expect("test_swaps_two", one,
         "2" + first_at + "0, column 0 of the output: expected " + bits + ", actual " + bits);
  expect("test_swaps_two", one, "", "constant");
  expect("test_skips_last_column", one,
         "70" + first_at + "0, column 99 of the output: .*, actual 0xffffffff \\(-nan\\)");
  expect("test_writes_to_gap", one,
         "1" + first_at +
             "0, column 100 of the output, between two rows.*, actual 0x3f800000 \\(1\\)");
  expect("test_skips_tile", one, "1024" + first_at + "32, column 32 of the output: .*");
  expect("test_skips_tile", one, "1024" + first_at + "32, column 32 .*", "constant");
  expect("test_skips_tile", "32x32", "");
  expect("test_adds_zero", one,
         "1" + first_at +
             "0, column 0 of the output: expected 0x80000000 \\(-0\\), actual 0x00000000 \\(0\\)");
}

/// More than 2^31 elements.
TEST_F(OnGpuFaultyTranspose, MatricesTooLargeForAHostAreVerifiedOnTheDevice) {
  const std::string why = lacks_memory(std::uint64_t{27} << 30);
  if (!why.empty()) GTEST_SKIP() << why;
  expect("test_sound", "46352x46352", "", "random", 1);
  expect("test_skips_last_column", "46352x46352",
         "copy 0: 46352 of 2148507904 elements differ; first at row 0, column 46351 of .*",
         "random", 1);
}

}  // namespace
}  // namespace reprolab::transpose
