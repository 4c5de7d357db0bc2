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

/// Launches the kernel on `problem` and looks at every weight, and at what lies around the output.
void expect_streamed(const Problem& problem, const Tensor& tensor, const GuardedOutput& output) {
  ASSERT_EQ(kernel_named<Problem>("streaming").launch(problem, nullptr), cudaSuccess);
  std::vector<std::uint16_t> written(tensor.expected.size());
  ASSERT_EQ(cudaMemcpy(written.data(), output.data(), 2 * written.size(), cudaMemcpyDefault),
            cudaSuccess);
  EXPECT_EQ(written, tensor.expected);
  EXPECT_TRUE(output.touched().empty());
}

/// Codes and output moved on their own: a view may begin at any pair of places.
TEST_F(OnGpuStreaming, TakesEveryPairOfPlacesOfCodesAndOutput) {
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
          expect_streamed(input.problem(output.data()), tensor, output);
        }
      }
    }
  }
}

/// The map of nested scales moved on its own: it is copied in bulk where it begins a cache line.
TEST_F(OnGpuStreaming, TakesAMapOfNestedScalesAtAnyPlace) {
  const Tensor tensor = make_row(20011, 64, true);
  const DeviceTensor input(tensor.quantized);
  const GuardedOutput output(2 * tensor.expected.size(), 0);
  const profiling::DeviceBuffer moved(sizeof(float) * (256 + 32));
  for (const std::size_t map_at : {0, 1, 2, 3, 4, 8, 31, 32}) {
    SCOPED_TRACE(map_at);
    Problem problem = input.problem(output.data());
    float* const map = moved.as<float>() + map_at;
    ASSERT_EQ(cudaMemcpy(map, problem.nested.map, 256 * sizeof(float), cudaMemcpyDefault),
              cudaSuccess);
    problem.nested.map = map;
    ASSERT_EQ(cudaMemset(output.data(), 0, 2 * tensor.expected.size()), cudaSuccess);
    expect_streamed(problem, tensor, output);
  }
}

}  // namespace
}  // namespace reprolab::nf4
