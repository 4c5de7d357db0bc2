// Every kernel on arrays that begin anywhere: it refuses them, or its output is as promised, and
// nothing else is written.
#include "tests/kernels/nf4/on_gpu.hpp"

namespace reprolab::nf4 {
namespace {

using reference::WeightType;

class OnGpuAlignment : public OnGpuEachKernel {};
class OnGpuStreaming : public OnGpuTest {};

/// Every place of a 16-byte store's eight weights, and of a word's four bytes; lengths from none to
/// several tiles.
TEST_P(OnGpuAlignment, IsAsPromisedWhereverTheArraysBegin) {
  const Proof proof;
  const std::string& kernel = GetParam().name;
  for (const bool nested : {false, true}) {
    for (const std::int64_t n : {1, 7, 8, 9, 23, 24, 47, 48, 49, 127, 1025, 40001}) {
      const Tensor tensor = make_row(n, nested ? 64 : 32, nested, WeightType::bf16);
      for (int offset = 1; offset < 10; ++offset) {
        SCOPED_TRACE(tensor.quantized.name + ", " + std::to_string(n) + " weights, offset " +
                     std::to_string(offset));
        const Nf4Workload workload(facts_of(tensor), {tensor}, 1, offset);
        const Outcome expected =
            workload.supports(kernel).ok ? promised(GetParam(), tensor) : Outcome::unsupported;
        const Verification found = proof.verify(GetParam(), workload);
        EXPECT_EQ(name(found.outcome), name(expected)) << found.reason;
        EXPECT_TRUE(writes_outside(kernel, tensor, offset).empty());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, OnGpuAlignment, testing::ValuesIn(registered_kernels()), name_of);

/// Codes and output moved on their own: a view may begin at any pair of places.
TEST_F(OnGpuStreaming, TakesEveryPairOfPlacesOfCodesAndOutput) {
  const std::int64_t n = 20011;
  const Tensor tensor = make_row(n);
  for (int codes_at = 0; codes_at < 4; ++codes_at) {
    const DeviceTensor input(tensor.quantized, codes_at);
    for (int output_at = 0; output_at < 8; ++output_at) {
      const GuardedOutput output(2 * tensor.expected.size(),
                                 2 * static_cast<std::uint64_t>(output_at));
      const Problem problem = input.problem(output.data());
      ASSERT_EQ(kernel_named<Problem>("streaming").launch(problem, nullptr), cudaSuccess);
      std::vector<std::uint16_t> written(tensor.expected.size());
      ASSERT_EQ(cudaMemcpy(written.data(), output.data(), 2 * written.size(), cudaMemcpyDefault),
                cudaSuccess);
      EXPECT_EQ(written, tensor.expected) << codes_at << ", " << output_at;
      EXPECT_TRUE(output.touched().empty()) << codes_at << ", " << output_at;
    }
  }
}

}  // namespace
}  // namespace reprolab::nf4
