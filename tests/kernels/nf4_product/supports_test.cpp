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

}  // namespace
}  // namespace reprolab::nf4_product
