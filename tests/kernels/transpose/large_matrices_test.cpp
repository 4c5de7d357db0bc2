// Matrices of 2^32 elements, which cannot be counted in 32 bits and do not fit most hosts: 16 GiB
// in and 16 GiB out, checked on the device.
#include "tests/kernels/transpose/on_gpu.hpp"

namespace reprolab::transpose {
namespace {

class OnGpuTransposeLargeMatrices : public OnGpuEachTranspose {};

TEST_P(OnGpuTransposeLargeMatrices, Of65536By65536AndOneOffAreTransposed) {
  constexpr std::int64_t words = std::int64_t{1} << 32;
  std::size_t free_bytes = 0, total_bytes = 0;
  profiling::check(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free device memory");
  const std::uint64_t needed = PlaceCheck::bytes(words, words) + (std::uint64_t{1} << 30);
  if (free_bytes < needed) {
    GTEST_SKIP() << "NOT TESTED, not enough device memory: 65536 x 65536 needs " << (needed >> 30)
                 << " GiB, " << (free_bytes >> 30) << " GiB are free";
  }
  ManyMatrices matrices(GetParam(), words, words);
  matrices.run(tight(65536, 65536));
  matrices.run(tight(65537, 65535));  // unaligned rows, for the kernels that support them
  EXPECT_GE(matrices.expect_transposed(), 1);
}

INSTANTIATE_TEST_SUITE_P(Kernels, OnGpuTransposeLargeMatrices, testing::ValuesIn(exact_kernels()),
                         name_of);

}  // namespace
}  // namespace reprolab::transpose
