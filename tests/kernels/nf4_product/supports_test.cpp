// The requirements of this project's rows that use cuBLAS.
#include "kernels/nf4_product/cublas_product.hpp"
#include "tests/kernels/nf4_product/testing.hpp"
#include "tests/text.hpp"

namespace reprolab::nf4_product {
namespace {

TEST(ProductSupports, OnlyTheRowOf16BitWeightsGetsThem) {
  const Problem problem = a_problem();
  const auto& reference = kernel_named<Problem>("cublas_16bit");
  EXPECT_TRUE(contains(reference.supports(problem).reason, "16 bits"));
  EXPECT_EQ(offer(reference, problem, problem.input).given_weights, supports_cublas(problem).ok);
  for (const char* name : {"shared_lut_then_cublas", "streaming_then_cublas"}) {
    EXPECT_FALSE(offer(kernel_named<Problem>(name), problem, problem.input).given_weights);
  }
}

TEST(ProductSupports, TheDetourRefusesWhatDequantizationOrCublasRefuses) {
  const auto& kernel = kernel_named<Problem>("shared_lut_then_cublas");
  Problem problem = a_problem();
  problem.n = std::int64_t{1} << 31;
  EXPECT_TRUE(contains(kernel.supports(problem).reason, "32 bits"));
  problem = a_problem();
  problem.bias = problem.input;
  EXPECT_TRUE(contains(kernel.supports(problem).reason, "bias"));
  problem = a_problem();
  problem.table[3] = 0.5f;
  if (!supports_cublas(problem).ok) GTEST_SKIP() << "NOT TESTED, no cuBLAS here";
  EXPECT_TRUE(contains(kernel.supports(problem).reason, "table"));
}

}  // namespace
}  // namespace reprolab::nf4_product
