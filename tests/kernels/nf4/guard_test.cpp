// No kernel writes outside its output.
#include "tests/kernels/nf4/on_gpu.hpp"

namespace reprolab::nf4 {
namespace {

class OnGpuGuards : public OnGpuEachKernel {};

TEST_P(OnGpuGuards, NothingIsWrittenBeforeOrBehindTheOutput) {
  for (const std::int64_t n : lengths) {
    for (const bool nested : {false, true}) {
      for (const auto type : {reference::WeightType::fp16, reference::WeightType::bf16}) {
        const auto touched = writes_outside(GetParam().name, make_row(n, 64, nested, type));
        EXPECT_TRUE(touched.empty())
            << n << " weights" << (nested ? ", nested" : "") << ": " << touched.size()
            << " bytes outside, the first at " << touched.front() << " of " << 2 * n;
      }
    }
  }
}

TEST_P(OnGpuGuards, InputsStayAsTheyWere) {
  const Tensor tensor = make_row(65537, 64, true);
  const DeviceTensor input(tensor.quantized);
  const profiling::DeviceBuffer output(2 * tensor.expected.size());
  const auto bytes = [&] {
    std::vector<std::uint8_t> host(input.bytes());
    profiling::check(cudaMemcpy(host.data(), input.data(), host.size(), cudaMemcpyDeviceToHost),
                     "reading the inputs");
    return host;
  };
  const auto before = bytes();
  ASSERT_EQ(kernel_named<Problem>(GetParam().name).launch(input.problem(output.data()), nullptr),
            cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(bytes(), before);
}

INSTANTIATE_TEST_SUITE_P(Kernels, OnGpuGuards, testing::ValuesIn(registered_kernels()), name_of);

}  // namespace
}  // namespace reprolab::nf4
