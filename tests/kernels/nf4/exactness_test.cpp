// Every kernel compared with the reference, on problems of every kind and alignment: it fulfils its
// contract or refuses.
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

/// Every length at one block size, two at each other; the types alternate. n = 0 succeeds.
TEST_P(OnGpuExactness, AtEveryBlockSizeTypeKindOfScalesAndLength) {
  const DeviceTensor input(make_row(1).quantized);
  Problem none = input.problem(nullptr);
  none.n = 0;
  EXPECT_EQ(kernel_named<Problem>(GetParam().name).launch(none, nullptr), cudaSuccess);
  WeightType type = WeightType::fp16, other = WeightType::bf16;
  for (const int block_size : block_sizes) {
    for (const std::int64_t n : lengths) {
      if (block_size != 64 && n != 31 && n != 65537) continue;
      std::swap(type, other);
      for (const bool nested : {false, true}) {
        expect_promised(make_row(n, block_size, nested, type), "aligned");
      }
    }
  }
}

/// Arrays that begin at every place of a 16-byte store's eight weights, and of a word's four bytes;
/// lengths from none to several tiles. The kinds of scales alternate over both.
TEST_P(OnGpuExactness, AtAnyAlignment) {
  for (const bool nested : {false, true}) {
    int number = nested;
    for (const std::int64_t n : {1, 9, 49, 1025, 40001}) {
      const Tensor tensor = make_row(n, nested ? 64 : 32, nested, WeightType::bf16);
      for (int offset = 1 + number++ % 2; offset < 10; offset += 2) {
        const Nf4Workload workload(facts_of(tensor), {tensor}, 1, offset);
        const bool runs = workload.supports(GetParam().name).ok;
        const Verification verdict = proof_->verify(GetParam(), workload);
        EXPECT_EQ(name(verdict.outcome),
                  name(runs ? promised(GetParam(), tensor) : Outcome::unsupported))
            << tensor.quantized.name << ", offset " << offset << ": " << verdict.reason;
      }
    }
  }
}

/// The second tensor is so large that a fused multiply-add in the scales would be detected.
TEST_P(OnGpuExactness, EveryCodeWithEveryKindOfScaleAndManyNestedWeights) {
  for (const auto type : {WeightType::fp16, WeightType::bf16}) {
    expect_promised(every_code_under_every_scale(type), std::string(name(type)));
    expect_promised(make_tensor({.rows = 4096, .columns = 4096, .nested = true, .output = type}, 3),
                    "4096^2");
  }
}

TEST_P(OnGpuExactness, NestedScalesWithTinyHugeAndNegativeOffsets) {
  for (const float offset : {0.0f, -0.25f, 1e-39f, 3e38f}) {
    for (const float second :
         {0.0f, 1e-40f, 2e-38f, 0.1f, 3e38f, std::numeric_limits<float>::infinity()}) {
      Tensor tensor = make_row(64 * 600 + 5, 64, true);
      auto& nested = *tensor.quantized.nested;
      nested.offset = offset;
      nested.absmax[1] = second;
      reference::dequantize_scales(nested, tensor.quantized.absmax);
      tensor.expected = reference::dequantize(tensor.quantized);
      expect_promised(tensor,
                      "absmax2 " + std::to_string(second) + ", offset " + std::to_string(offset));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, OnGpuExactness, testing::ValuesIn(registered_kernels()), name_of);

class OnGpuKernelStreaming : public OnGpuTest {
 protected:
  static void expect_right(const Problem& problem, const Tensor& tensor) {
    ASSERT_EQ(kernel_named<Problem>("streaming").launch(problem, nullptr), cudaSuccess);
    std::vector<std::uint16_t> written(tensor.expected.size());
    ASSERT_EQ(cudaMemcpy(written.data(), problem.output, 2 * written.size(), cudaMemcpyDefault),
              cudaSuccess);
    EXPECT_EQ(written, tensor.expected);
  }
};

TEST_F(OnGpuKernelStreaming, SupportsAnyAlignmentOfCodesAndOutput) {
  for (const int block_size : {32, 64, 256}) {
    for (const bool nested : {false, true}) {
      const Tensor tensor = make_row(20011, block_size, nested);
      for (const int codes_at : {0, 1, 2, 3, 4}) {
        const DeviceTensor input(tensor.quantized, codes_at);
        for (const int output_at : {0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32, 56}) {
          SCOPED_TRACE(tensor.quantized.name + ", codes at " + std::to_string(codes_at) +
                       ", output at " + std::to_string(output_at));
          const profiling::DeviceBuffer output(2 * (tensor.expected.size() + 56));
          expect_right(input.problem(output.as<std::uint16_t>() + output_at), tensor);
        }
      }
    }
  }
}

/// The map of nested scales is moved independently: it is copied in bulk if it starts at a cache
/// line.
TEST_F(OnGpuKernelStreaming, SupportsAnyAlignmentOfTheMap) {
  const Tensor tensor = make_row(20011, 64, true);
  const DeviceTensor input(tensor.quantized);
  const profiling::DeviceBuffer moved(sizeof(float) * (256 + 32));
  for (const std::size_t map_at : {0, 1, 2, 3, 4, 8, 31, 32}) {
    SCOPED_TRACE(map_at);
    const profiling::DeviceBuffer output(2 * tensor.expected.size());
    Problem problem = input.problem(output.data());
    float* const map = moved.as<float>() + map_at;
    ASSERT_EQ(cudaMemcpy(map, problem.nested.map, 256 * sizeof(float), cudaMemcpyDefault),
              cudaSuccess);
    problem.nested.map = map;
    expect_right(problem, tensor);
  }
}

}  // namespace
}  // namespace reprolab::nf4
