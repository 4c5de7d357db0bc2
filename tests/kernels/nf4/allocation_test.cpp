// No timed launch allocates: a library's user keeps what a launch needs besides its problem.
#include "tests/kernels/captured_allocations.hpp"
#include "tests/kernels/nf4/on_gpu.hpp"

namespace reprolab::nf4 {
namespace {

class OnGpuAllocation : public OnGpuTest {};

TEST_F(OnGpuAllocation, NoKernelAllocatesOnceItHasBeenVerified) {
  for (const bool nested : {false, true}) {
    const Tensor tensor = make_row(64 * 700, 64, nested);
    const DeviceTensor on_device(tensor.quantized);
    const profiling::DeviceBuffer output(2 * tensor.expected.size());
    const Problem problem = on_device.problem(output.data());
    const profiling::Stream stream;
    for (const auto& [name, kernel] : Registry<Problem>::instance().kernels()) {
      if (kernel.origin.kind != Origin::Kind::project || !kernel.supports(problem).ok) continue;
      profiling::check(kernel.launch(problem, stream.get()), name);
      stream.synchronize();
      EXPECT_EQ(
          captured_allocations([&] { return kernel.launch(problem, stream.get()); }, stream.get()),
          0)
          << name << ", nested " << nested;
    }
  }
}

}  // namespace
}  // namespace reprolab::nf4
