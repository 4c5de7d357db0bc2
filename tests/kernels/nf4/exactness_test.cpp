// Every kernel against the reference: all block sizes, output types, kinds of scales and lengths;
// and nothing is written outside of its output.
#include "tests/kernels/nf4/on_gpu.hpp"

namespace reprolab::nf4 {
namespace {

using reference::WeightType;

class OnGpuExactness : public OnGpuEachKernel {};

TEST_P(OnGpuExactness, IsAsPromisedAtEveryBlockSizeTypeKindOfScalesAndLength) {
  const Proof proof;
  for (const int block_size : block_sizes) {
    for (const auto type : {WeightType::fp16, WeightType::bf16}) {
      for (const bool nested : {false, true}) {
        for (const std::int64_t n : lengths) {
          const Tensor tensor = make_row(n, block_size, nested, type);
          proof.expect_promised(GetParam(), tensor,
                                tensor.quantized.name + ", " + std::to_string(n) + " weights");
          if (block_size != 64) continue;
          EXPECT_TRUE(writes_outside(GetParam().name, tensor).empty())
              << tensor.quantized.name << ", " << n << " weights";
        }
      }
    }
  }
}

/// Every launch of many gives the same bits, and leaves its inputs alone.
TEST_P(OnGpuExactness, EveryCopyIsAsPromised) {
  const Proof proof;
  for (const bool nested : {false, true}) {
    const Tensor tensor = make_row(1000003, 64, nested);
    const Verification found = proof.verify(GetParam(), tensor, 21);
    EXPECT_EQ(name(found.outcome), name(promised(GetParam(), tensor))) << found.reason;
  }
}

/// Large enough that a fused multiply-add in the scales would be detected.
TEST_P(OnGpuExactness, SixteenMillionNestedWeightsAreAsPromised) {
  const Proof proof;
  for (const auto type : {WeightType::fp16, WeightType::bf16}) {
    const Tensor tensor = make_tensor(
        {.rows = 4096, .columns = 4096, .block_size = 64, .nested = true, .output = type}, 3);
    proof.expect_promised(GetParam(), tensor, tensor.quantized.name + ", 4096x4096");
  }
}

/// A checkpoint's own table is refused, or used as promised.
TEST_P(OnGpuExactness, AnotherTableIsRefusedOrTakenAsPromised) {
  const Proof proof;
  Tensor tensor = make_row(4097);
  for (float& entry : tensor.quantized.table) entry *= 0.75f;
  tensor.expected = reference::dequantize(tensor.quantized);
  proof.expect_promised(GetParam(), tensor, "another table");
}

TEST_P(OnGpuExactness, NoWeightsAreNoError) {
  const Tensor tensor = make_row(1);
  const DeviceTensor input(tensor.quantized);
  const GuardedOutput output(0);
  Problem problem = input.problem(output.data());
  problem.n = 0;
  EXPECT_EQ(kernel_named<Problem>(GetParam().name).launch(problem, nullptr), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_TRUE(output.touched().empty());
}

INSTANTIATE_TEST_SUITE_P(Kernels, OnGpuExactness, testing::ValuesIn(registered_kernels()), name_of);

}  // namespace
}  // namespace reprolab::nf4
