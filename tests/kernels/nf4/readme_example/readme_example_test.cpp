// The kernel that README.md shows: alone in this program, so the registry holds nothing else.
#include "tests/kernels/nf4/on_gpu.hpp"

namespace reprolab::nf4 {
namespace {

TEST(ReadmeExample, RegistersUnderTheNameOfItsFile) {
  const auto kernels = registered_kernels();
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].name, "my_kernel");
  EXPECT_EQ(kernels[0].source_file, "kernels/nf4/my_kernel.cu");
  EXPECT_EQ(kernels[0].role, Role::kernel);
  EXPECT_EQ(kernels[0].deviation, "");
  EXPECT_FALSE(kernels[0].lineage.empty());
}

class OnGpuReadmeExample : public OnGpuEachKernel {};

TEST_P(OnGpuReadmeExample, IsBitExactAndWritesNothingOutsideItsOutput) {
  const Proof proof;
  for (const auto type : {reference::WeightType::fp16, reference::WeightType::bf16}) {
    for (const bool nested : {false, true}) {
      for (const int block_size : {32, 64, 4096}) {
        for (const std::int64_t n : lengths) {
          const Tensor tensor = make_row(n, block_size, nested, type);
          proof.expect_promised(GetParam(), tensor,
                                tensor.quantized.name + ", " + std::to_string(n) + " weights");
          EXPECT_TRUE(writes_outside(GetParam().name, tensor).empty()) << n << " weights";
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, OnGpuReadmeExample, testing::ValuesIn(registered_kernels()),
                         name_of);

}  // namespace
}  // namespace reprolab::nf4
