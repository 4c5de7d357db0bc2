// No launch allocates once the kernel has been launched on the problem.
#include "tests/kernels/captured_allocations.hpp"
#include "tests/kernels/nf4_product/on_gpu.hpp"

namespace reprolab::nf4_product {
namespace {

class OnGpuProductAllocation : public OnGpuTest {};

TEST_F(OnGpuProductAllocation, NoKernelAllocatesOnceItHasBeenLaunched) {
  for (const bool nested : {false, true}) {
    for (const std::int64_t m : {1, 40}) {
      const ProductWorkload workload = make_workload(
          {.weights = {.rows = 640, .columns = 1024, .nested = nested}, .m = m, .bias = true});
      const profiling::Stream stream;
      for (const auto& [name, kernel] : Registry<Problem>::instance().kernels()) {
        if (!workload.supports(name).ok) continue;
        const auto launch = [&] { return workload.launch(name, 0, stream.get()); };
        profiling::check(launch(), name);
        stream.synchronize();
        EXPECT_EQ(captured_allocations(launch, stream.get()), 0) << name << ", nested " << nested;
      }
    }
  }
}

}  // namespace
}  // namespace reprolab::nf4_product
