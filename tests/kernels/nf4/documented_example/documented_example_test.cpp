// The kernel that docs/adding-a-kernel.md shows: alone in this program, so the registry holds
// nothing else.
#include "tests/kernels/nf4/testing.hpp"

namespace reprolab::nf4 {
namespace {

TEST(DocumentedExample, RegistersUnderTheNameOfItsFile) {
  const auto kernels = registered_kernels();
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].name, "my_kernel");
  EXPECT_EQ(kernels[0].source_file, "kernels/nf4/my_kernel.cu");
  EXPECT_EQ(kernels[0].origin.kind, Origin::Kind::project);
  EXPECT_EQ(kernels[0].promise.text, "");
  EXPECT_FALSE(kernels[0].lineage.empty());
}

class OnGpuDocumentedExample : public OnGpuEachKernel {};

TEST_P(OnGpuDocumentedExample, IsBitExactAndWritesNothingOutsideItsOutput) {
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

INSTANTIATE_TEST_SUITE_P(Kernels, OnGpuDocumentedExample, testing::ValuesIn(registered_kernels()),
                         name_of);

}  // namespace
}  // namespace reprolab::nf4
