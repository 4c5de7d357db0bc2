// The grids of problems that exceed any memory. Launches are intercepted, and their blocks counted.
#include "kernels/grid.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/nf4/format.hpp"
#include "kernels/nf4/support.hpp"
#include "kernels/transpose/support.hpp"
#include "kernels/transpose/tma_launch.hpp"
#include "tests/text.hpp"

namespace {
std::vector<unsigned>* counted = nullptr;  ///< The blocks of each launch; null: launches are run.
}

// The first call of a launch in nvcc's code since CUDA 9.2; a non-zero result skips the launch. The
// linker substitutes this function (--wrap).
extern "C" {
unsigned __real___cudaPushCallConfiguration(dim3, dim3, std::size_t, void*);
unsigned __wrap___cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t bytes,
                                            void* stream) {
  if (counted == nullptr) return __real___cudaPushCallConfiguration(grid, block, bytes, stream);
  counted->push_back(grid.x);
  return 1;
}
}

namespace reprolab {
namespace {

template <class Problem>
std::vector<unsigned> grids(const Kernel<Problem>& kernel, const Problem& problem) {
  std::vector<unsigned> blocks;
  counted = &blocks;
  kernel.launch(problem, nullptr);
  counted = nullptr;
  return blocks;
}

/// Fails the test unless the launches of the `large` problem, `times` the `small` one, have `times`
/// as many blocks, within the maximum of a grid.
template <class Problem>
void expect_grids_grow(const Kernel<Problem>& kernel, const Problem& small, const Problem& large,
                       double times) {
  const auto before = grids(kernel, small), after = grids(kernel, large);
  ASSERT_FALSE(before.empty()) << kernel.name;
  ASSERT_EQ(before.size(), after.size()) << kernel.name;
  for (std::size_t i = 0; i < after.size(); ++i) {
    EXPECT_LE(after[i], max_blocks) << kernel.name;
    EXPECT_NEAR(after[i] / (times * before[i]), 1, 0.01) << kernel.name;
  }
}

/// This project's kernels.
template <class Problem>
std::vector<Kernel<Problem>> kernels() {
  std::vector<Kernel<Problem>> own;
  for (const auto& [name, kernel] : Registry<Problem>::instance().kernels()) {
    if (kernel.origin.kind == Origin::Kind::project) own.push_back(kernel);
  }
  return own;
}

nf4::Problem weights(std::int64_t n) {
  nf4::Problem problem;
  std::ranges::copy(nf4::standard_table().entry, problem.table.begin());
  problem.n = n;
  problem.block_size = 32;
  return problem;
}

transpose::Problem matrix(std::int64_t rows, std::int64_t columns, int padding = 0) {
  return {.rows = rows,
          .columns = columns,
          .in_stride = (columns + 3) / 4 * 4 + padding,
          .out_stride = (rows + 3) / 4 * 4 + padding};
}

constexpr std::int64_t too_many[] = {nf4::max_weights + 1, std::int64_t{1} << 40,
                                     std::int64_t{1} << 42, INT64_MAX};

TEST(Grid, IsCountedIn64BitsWithoutTruncation) {
  static_assert(blocks_over(0, 64) == 0 && blocks_over(1, 64) == 1 && blocks_over(64, 64) == 1);
  static_assert(blocks_over(65, 64) == 2 && blocks_over(INT64_MAX, 1) == INT64_MAX);
  static_assert(grid_of(1) == 1 && grid_of(max_blocks) == 0x7fffffffu);
  for (const std::int64_t n : too_many) EXPECT_GT(grid_of(n), max_blocks);
}

TEST(Grid, OfNf4KernelsCoversTheLongestProblemAndLongerOnesAreRefused) {
  constexpr std::int64_t some = std::int64_t{1} << 33;
  for (const auto& kernel : kernels<nf4::Problem>()) {
    const Support longest = kernel.supports(weights(nf4::max_weights));
    EXPECT_TRUE(longest.ok) << kernel.name << ": " << longest.reason;
    expect_grids_grow(kernel, weights(some), weights(nf4::max_weights),
                      static_cast<double>(nf4::max_weights) / some);
    for (const std::int64_t n : too_many) {
      EXPECT_TRUE(contains(kernel.supports(weights(n)).reason, "2^39 - 256 weights"))
          << kernel.name << ", " << n;
    }
  }
}

TEST(Grid, OfTransposesCoversTheMostTilesAndMoreAreRefused) {
  constexpr std::int64_t some = 32 << 10, most = 32 * 46340;  // 46340^2 is just below 2^31
  constexpr std::int64_t limit = std::int64_t{1} << 31;
  for (const auto& kernel : kernels<transpose::Problem>()) {
    if (kernel.name.starts_with("tma_")) continue;  // the host half is driver code: tma_tiles
    for (const int padding : {0, 1}) {
      if (!kernel.supports(matrix(some, some, padding)).ok) continue;
      EXPECT_TRUE(kernel.supports(matrix(most, most, padding)).ok) << kernel.name;
      expect_grids_grow(kernel, matrix(some, some, padding), matrix(most, most, padding),
                        static_cast<double>(most * most) / (some * some));
      for (const auto& [rows, columns] : {std::pair{limit - 4, 31 * 32}, {31 * 32, limit - 4}}) {
        EXPECT_TRUE(kernel.supports(matrix(rows, columns, padding)).ok) << kernel.name;
        for (const unsigned blocks : grids(kernel, matrix(rows, columns, padding))) {
          EXPECT_LE(blocks, max_blocks) << kernel.name;
        }
      }
    }
    for (const auto& [rows, columns] : {std::pair{most + 32, most + 32},
                                        {1 << 21, 1 << 21},
                                        {limit * 32, 4},
                                        {4, limit * 32},
                                        {1LL << 60, 1LL << 60}}) {
      EXPECT_TRUE(contains(kernel.supports(matrix(rows, columns)).reason, "2^31 - 1 tiles"))
          << kernel.name << ", " << rows << " x " << columns;
    }
  }
  EXPECT_TRUE(transpose::supports_tiles(matrix(1 << 30, 0)).ok) << "an empty matrix is supported";
  EXPECT_EQ(transpose::tma_tiles(matrix(most, most)), std::int64_t{46340} * 46340);
  EXPECT_EQ(transpose::tma_tiles(matrix(1 << 21, 1 << 21)), std::int64_t{1} << 32);
}

}  // namespace
}  // namespace reprolab
