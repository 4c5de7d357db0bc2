// Every kernel compared with the reference, on problems of every kind and alignment: it fulfils its
// contract or refuses, and writes nothing outside its output.
#include "tests/kernels/nf4/testing.hpp"

namespace reprolab::nf4 {
namespace {

using reference::WeightType;

class OnGpuExactness : public OnGpuEachKernel {
 protected:
  void expect_promised(const Tensor& tensor, const std::string& what) const {
    proof_->expect_promised(
        GetParam(), tensor,
        tensor.quantized.name + ", " + std::to_string(tensor.quantized.n) + " weights, " + what);
  }
  void SetUp() override {
    OnGpuEachKernel::SetUp();
    if (!IsSkipped()) proof_ = std::make_unique<Proof>();
  }

  std::unique_ptr<Proof> proof_;
};

TEST_P(OnGpuExactness, AtEveryBlockSizeTypeKindOfScalesAndLength) {
  for_each_format([&](int block_size, WeightType type, bool nested) {
    for (const std::int64_t n : lengths) {
      const Tensor tensor = make_row(n, block_size, nested, type);
      expect_promised(tensor, "aligned");
      if (block_size != 64) continue;
      EXPECT_TRUE(writes_outside(GetParam().name, tensor).empty()) << n << " weights";
    }
  });
}

TEST_P(OnGpuExactness, AtAnyAlignment) {
  const std::string& kernel = GetParam().name;
  for_each_offset([&](const Tensor& tensor, int offset) {
    SCOPED_TRACE(tensor.quantized.name + ", " + std::to_string(tensor.quantized.n) +
                 " weights, offset " + std::to_string(offset));
    const Nf4Workload workload(facts_of(tensor), {tensor}, 1, offset);
    const Outcome expected =
        workload.supports(kernel).ok ? promised(GetParam(), tensor) : Outcome::unsupported;
    const Verification verdict = proof_->verify(GetParam(), workload);
    EXPECT_EQ(name(verdict.outcome), name(expected)) << verdict.reason;
    EXPECT_TRUE(writes_outside(kernel, tensor, offset).empty());
  });
}

/// Every launch gives the same bits, and does not change its inputs.
TEST_P(OnGpuExactness, ManyLaunchesGiveTheSameBits) {
  for (const bool nested : {false, true}) {
    const Tensor tensor = make_row(1000003, 64, nested);
    const Verification verdict = proof_->verify(GetParam(), tensor, 21);
    EXPECT_EQ(name(verdict.outcome), name(promised(GetParam(), tensor))) << verdict.reason;
  }
}

/// Large enough that a fused multiply-add in the scales would be detected.
TEST_P(OnGpuExactness, SixteenMillionNestedWeights) {
  for (const auto type : {WeightType::fp16, WeightType::bf16}) {
    expect_promised(make_tensor({.rows = 4096, .columns = 4096, .nested = true, .output = type}, 3),
                    "4096^2");
  }
}

TEST_P(OnGpuExactness, EveryCodeWithEveryKindOfScale) {
  for (const auto type : {WeightType::fp16, WeightType::bf16}) {
    expect_promised(every_code_under_every_scale(type), std::string(name(type)));
  }
}

TEST_P(OnGpuExactness, NestedScalesWithTinyHugeAndNegativeOffsets) {
  for_each_nested_scale([&](const Tensor& tensor) {
    const auto& nested = *tensor.quantized.nested;
    expect_promised(tensor, "absmax2 " + std::to_string(nested.absmax[1]) + ", offset " +
                                std::to_string(nested.offset));
  });
}

/// A checkpoint's own table is refused, or used as promised.
TEST_P(OnGpuExactness, AnotherTable) {
  Tensor tensor = make_row(4097);
  for (float& entry : tensor.quantized.table) entry *= 0.75f;
  tensor.expected = reference::dequantize(tensor.quantized);
  expect_promised(tensor, "another table");
}

TEST_P(OnGpuExactness, NoWeightsSucceed) {
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

class OnGpuStreaming : public OnGpuTest {
 protected:
  /// Launches it on `problem` and checks every weight and the guards of the output.
  static void expect_right(const Problem& problem, const Tensor& tensor,
                           const GuardedOutput& output) {
    ASSERT_EQ(kernel_named<Problem>("streaming").launch(problem, nullptr), cudaSuccess);
    std::vector<std::uint16_t> written(tensor.expected.size());
    ASSERT_EQ(cudaMemcpy(written.data(), output.data(), 2 * written.size(), cudaMemcpyDefault),
              cudaSuccess);
    EXPECT_EQ(written, tensor.expected);
    EXPECT_TRUE(output.touched().empty());
  }
};

/// Codes and output are moved independently, because a view may start anywhere.
TEST_F(OnGpuStreaming, SupportsAnyAlignmentOfCodesAndOutput) {
  for (const int block_size : {32, 64, 256}) {
    for (const bool nested : {false, true}) {
      const Tensor tensor = make_row(20011, block_size, nested);
      for (const int codes_at : {0, 1, 2, 3, 4}) {
        const DeviceTensor input(tensor.quantized, codes_at);
        for (const int output_at : {0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32, 56}) {
          SCOPED_TRACE(tensor.quantized.name + ", codes at " + std::to_string(codes_at) +
                       ", output at " + std::to_string(output_at));
          const GuardedOutput output(2 * tensor.expected.size(),
                                     2 * static_cast<std::uint64_t>(output_at));
          expect_right(input.problem(output.data()), tensor, output);
        }
      }
    }
  }
}

/// The map of nested scales is moved independently: it is copied in bulk if it starts at a cache
/// line.
TEST_F(OnGpuStreaming, SupportsAnyAlignmentOfTheMap) {
  const Tensor tensor = make_row(20011, 64, true);
  const DeviceTensor input(tensor.quantized);
  const profiling::DeviceBuffer moved(sizeof(float) * (256 + 32));
  for (const std::size_t map_at : {0, 1, 2, 3, 4, 8, 31, 32}) {
    SCOPED_TRACE(map_at);
    const GuardedOutput output(2 * tensor.expected.size());
    Problem problem = input.problem(output.data());
    float* const map = moved.as<float>() + map_at;
    ASSERT_EQ(cudaMemcpy(map, problem.nested.map, 256 * sizeof(float), cudaMemcpyDefault),
              cudaSuccess);
    problem.nested.map = map;
    expect_right(problem, tensor, output);
  }
}

}  // namespace
}  // namespace reprolab::nf4
