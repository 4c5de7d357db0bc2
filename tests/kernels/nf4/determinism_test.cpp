// Every run gives the same bits.
#include "tests/kernels/nf4/on_gpu.hpp"

namespace reprolab::nf4 {
namespace {

class OnGpuDeterminism : public OnGpuEachKernel {};

TEST_P(OnGpuDeterminism, TwentyRerunsAreEqualBitForBit) {
  const Proof proof;
  for (const bool nested : {false, true}) {
    const Tensor tensor = make_row(1000003, 64, nested);
    const DeviceTensor input(tensor.quantized);
    const std::uint64_t bytes = 2 * tensor.expected.size();
    const profiling::DeviceBuffer first(bytes), again(bytes);
    const auto run = [&](const profiling::DeviceBuffer& output) {
      profiling::check(cudaMemsetAsync(output.data(), poison_byte, bytes, proof.stream()),
                       "poisoning an output");
      profiling::check(kernel_named<Problem>(GetParam().name)
                           .launch(input.problem(output.data()), proof.stream()),
                       GetParam().name);
    };
    run(first);
    for (int rerun = 0; rerun < 20; ++rerun) {
      run(again);
      const auto found = proof.comparison().compare(first.data(), again.data(), 1000003, 2);
      EXPECT_TRUE(found.equal()) << "rerun " << rerun << ": " << found.mismatches
                                 << " weights differ, the first at " << found.first_mismatch;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, OnGpuDeterminism, testing::ValuesIn(registered_kernels()),
                         name_of);

}  // namespace
}  // namespace reprolab::nf4
