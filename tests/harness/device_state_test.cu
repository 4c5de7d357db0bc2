// The detection of changes to settings that a kernel may not change. Settings here are variables;
// those of a GPU are also read if there is one.
#include "harness/device_state.hpp"

#include <cfenv>

#include "profiling/cuda_check.hpp"
#include "tests/on_gpu.hpp"
#include "tests/text.hpp"

namespace reprolab {
namespace {

/// The host's settings, which need no GPU.
TEST(DeviceState, TheHostsRoundingModeIsOne) {
  const DeviceState state(cudaStream_t{nullptr});
  const int before = std::fegetround();
  std::fesetround(FE_UPWARD);
  const std::string changes = state.changes();
  std::fesetround(before);
  EXPECT_TRUE(contains(changes, "the host's rounding mode from ")) << changes;
  EXPECT_EQ(state.changes(), "");
}

class OnGpuDeviceState : public OnGpuTest {};

__global__ void use_stack(int* to, int from) {
  int frame[2000];
  for (int i = 0; i < 2000; ++i) frame[i] = i * from;
  to[threadIdx.x] = frame[(threadIdx.x * 37 + from) % 2000];
}

/// Allowed in kernels: large frames, local memory, own memory pools, more shared memory, captures,
/// allocations.
TEST_F(OnGpuDeviceState, AllowedKernelsChangeNothing) {
  const profiling::Stream stream;
  const DeviceState state(stream.get());
  const profiling::DeviceBuffer memory(4096);
  use_stack<<<1, 256, 0, stream.get()>>>(memory.as<int>(), 3);
  profiling::check(
      cudaFuncSetAttribute(use_stack, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10),
      "asking for shared memory");
  use_stack<<<1, 256, 60 << 10, stream.get()>>>(memory.as<int>(), 5);
  cudaMemPool_t pool = nullptr;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  profiling::check(cudaMemPoolCreate(&pool, &properties), "making a pool");
  std::uint64_t threshold = ~std::uint64_t{0};
  profiling::check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold),
                   "a pool");
  void* own = nullptr;
  profiling::check(cudaMallocFromPoolAsync(&own, 1 << 20, pool, stream.get()), "allocating");
  profiling::check(cudaFreeAsync(own, stream.get()), "freeing");
  profiling::check(cudaMallocAsync(&own, 1 << 20, stream.get()), "allocating");
  profiling::check(cudaFreeAsync(own, stream.get()), "freeing");
  stream.synchronize();
  EXPECT_EQ(state.changes(), "");
  profiling::check(cudaMemPoolDestroy(pool), "destroying a pool");
}

TEST_F(OnGpuDeviceState, EveryKindOfSettingCanBeReadOnHopper) {
  int major = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  if (major < 9) GTEST_SKIP() << "NOT TESTED, a GPU of compute capability " << major << ".x";
  const profiling::Stream stream;
  std::vector<std::string> unread;
  for (const DeviceSetting& setting : device_settings(stream.get())) {
    if (!setting.read()) unread.push_back(setting.name);
  }
  EXPECT_EQ(unread, std::vector<std::string>{});
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace reprolab
