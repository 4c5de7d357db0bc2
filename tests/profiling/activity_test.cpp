// Activity records of a fake CUPTI (fake_cupti.cpp), and the values computed from them.
#include "profiling/activity.hpp"

#include <cupti.h>
#include <dlfcn.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "profiling/not_measured.hpp"
#include "tests/profiling/testing.hpp"

namespace reprolab::profiling {
namespace {

// The newest kernel record that these headers have; its beginning must match the oldest layout.
#if CUPTI_API_VERSION >= 130000
using NewestKernelRecord = CUpti_ActivityKernel10;
#else
using NewestKernelRecord = CUpti_ActivityKernel9;
#endif

template <class Function>
Function cupti_function(const char* symbol) {
  return reinterpret_cast<Function>(dlsym(dlopen(FAKE_CUPTI, RTLD_NOW), symbol));
}

void launch(const char* name, std::uint64_t start_ns, std::uint64_t end_ns) {
  cupti_function<void (*)(const char*, std::uint64_t, std::uint64_t)>("fake_cupti_launch")(
      name, start_ns, end_ns);
}

template <class Record>
void deliver(const Record& record) {
  cupti_function<void (*)(const void*, std::size_t)>("fake_cupti_record")(&record, sizeof record);
}

/// A kernel, a copy or a fill.
template <class Record>
Record record_of(CUpti_ActivityKind kind, std::uint32_t correlation_id, std::uint64_t start_ns,
                 std::uint64_t end_ns) {
  Record record{};
  record.kind = kind;
  record.correlationId = correlation_id;
  record.start = start_ns;
  record.end = end_ns;
  return record;
}

NewestKernelRecord kernel_record(std::uint32_t correlation_id, std::uint64_t start_ns,
                                 std::uint64_t end_ns) {
  auto record = record_of<NewestKernelRecord>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, correlation_id,
                                              start_ns, end_ns);
  record.name = "_Z6kernelIfEvPT_";
  return record;
}

CUpti_ActivityExternalCorrelation tag_record(
    std::uint32_t correlation_id, std::uint64_t tag,
    CUpti_ExternalCorrelationKind kind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0) {
  CUpti_ActivityExternalCorrelation record{};
  record.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  record.externalKind = kind;
  record.correlationId = correlation_id;
  record.externalId = tag;
  return record;
}

std::size_t enabled_kinds() {
  return cupti_function<std::size_t (*)()>("fake_cupti_enabled_kinds")();
}

class Activities : public testing::Test {
 private:
  ScopedVariable library_{"REPROLAB_CUPTI", FAKE_CUPTI};
};

TEST_F(Activities, HaveEveryMemberOfAKernelsRecord) {
  ActivityRecorder recorder;
  auto record = kernel_record(7, 1000, 3500);
  record.gridX = 10, record.gridY = 20, record.gridZ = 30;
  record.blockX = 256, record.blockY = 2, record.blockZ = 1;
  record.registersPerThread = 40;
  record.staticSharedMemory = 64;
  record.dynamicSharedMemory = 4096;
  deliver(record);
  const auto kernels = recorder.flush();
  ASSERT_EQ(kernels.size(), 1u);
  const KernelActivity& kernel = kernels[0];
  EXPECT_EQ(kernel.name, "void kernel<float>(float*)");
  EXPECT_EQ(kernel.end_ns - kernel.start_ns, 2500u);
  EXPECT_TRUE(kernel.is_kernel);
  EXPECT_FALSE(kernel.tag);
  EXPECT_EQ(kernel.grid, (std::array<std::int32_t, 3>{10, 20, 30}));
  EXPECT_EQ(kernel.block, (std::array<std::int32_t, 3>{256, 2, 1}));
  EXPECT_EQ(kernel.registers_per_thread, 40u);
  EXPECT_EQ(kernel.static_shared_bytes, 64);
  EXPECT_EQ(kernel.dynamic_shared_bytes, 4096);
}

/// In any order of the records, and in that of the starts; a graph's kernels share a call.
TEST_F(Activities, HaveTheTagOfTheirCall) {
  ActivityRecorder recorder;
  deliver(kernel_record(2, 500, 600));
  deliver(tag_record(1, 11));
  deliver(kernel_record(1, 100, 200));
  deliver(kernel_record(1, 300, 400));
  deliver(tag_record(2, 22));
  deliver(record_of<CUpti_ActivityMemcpy5>(CUPTI_ACTIVITY_KIND_MEMCPY, 3, 700, 800));
  deliver(tag_record(3, 33, CUPTI_EXTERNAL_CORRELATION_KIND_OPENACC));
  deliver(record_of<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET, 4, 900, 990));
  deliver(tag_record(4, 44));
  deliver(record_of<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME, 5, 1, 2));
  const auto activities = recorder.flush();
  ASSERT_EQ(activities.size(), 5u);
  EXPECT_EQ(activities[0].tag, 11u);
  EXPECT_EQ(activities[1].tag, 11u);
  EXPECT_EQ(activities[2].tag, 22u);
  EXPECT_EQ(activities[3].name, "copy");
  EXPECT_FALSE(activities[3].tag);
  EXPECT_EQ(activities[4].name, "fill");
  EXPECT_EQ(activities[4].tag, 44u);
  EXPECT_EQ(activities[4].end_ns - activities[4].start_ns, 90u);
  EXPECT_FALSE(activities[3].is_kernel || activities[4].is_kernel);
  for (std::size_t i = 1; i < activities.size(); ++i) {
    EXPECT_GT(activities[i].start_ns, activities[i - 1].start_ns);
  }
}

/// A flush leaves nothing for the next one, and a loss of discarded records does not count.
TEST_F(Activities, ThatAreLostOrHaveNoTimesAreAnErrorUnlessTheyAreDiscarded) {
  ActivityRecorder recorder;
  const auto lose = [] {
    launch("sound", 10, 20);
    launch("unfinished", 30, 0);
    launch("without times", 0, 0);
  };
  lose();
  expect_refused<NotMeasured>([&] { recorder.flush(); }, "Synchronize");
  EXPECT_TRUE(recorder.flush().empty());
  {
    const ScopedVariable dropped("FAKE_CUPTI_DROPPED", "3");
    expect_refused<NotMeasured>([&] { recorder.flush(); }, "recording");
    lose();
    EXPECT_NO_THROW(recorder.discard());
  }
  launch("wanted", 50, 60);
  const auto kernels = recorder.flush();
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].name, "wanted");
}

TEST_F(Activities, OfAProcessThatAnotherProfilerHoldsAreRefused) {
  const auto expect_refusal = [] {
    expect_refused<std::runtime_error>([] { ActivityRecorder recorder; }, "instrument");
  };
  for (const char* failure :
       {"cuptiActivityRegisterCallbacks=39", "cuptiActivityEnable=39", "cuptiActivityEnable=26"}) {
    const ScopedVariable fail("FAKE_CUPTI_FAIL", failure);
    expect_refusal();
    EXPECT_EQ(enabled_kinds(), 0u);
  }
  for (const char* variable : {"NV_NSIGHT_INJECTION_TRANSPORT_TYPE", "NSYS_PROFILING_SESSION_ID",
                               "CUDA_INJECTION64_PATH"}) {
    const ScopedVariable profiler(variable, "1");
    expect_refusal();
  }
  const ActivityRecorder first;
  EXPECT_THROW(ActivityRecorder(), std::logic_error);
}

TEST(ActivityRecorder, NeedsCuptiOrSaysWhatIsMissing) {
  for (const char* library : {"/nonexistent/libcupti.so", FAKE_NVML}) {
    const ScopedVariable used("REPROLAB_CUPTI", library);
    expect_refused<std::runtime_error>([] { ActivityRecorder recorder; }, "recording");
  }
}

/// From NVIDIA's table of compute capabilities ("CUDA C++ Programming Guide"): an A100, but for the
/// capability.
cudaDeviceProp device_of(int capability) {
  cudaDeviceProp device{};
  device.major = capability / 10;
  device.minor = capability % 10;
  device.maxThreadsPerBlock = 1024;
  device.maxThreadsPerMultiProcessor = 2048;
  device.regsPerBlock = device.regsPerMultiprocessor = 65536;
  device.warpSize = 32;
  device.sharedMemPerBlock = 48 << 10;
  device.sharedMemPerMultiprocessor = 164 << 10;
  device.sharedMemPerBlockOptin = 163 << 10;
  device.reservedSharedMemPerBlock = 1 << 10;
  device.multiProcessorCount = 40;
  return device;
}

/// NVIDIA's own calculation, given what the kernel was launched with.
TEST(BlocksPerMultiprocessor, AreLimitedByWhateverRunsOutFirst) {
  const auto blocks = [](int threads, std::uint32_t registers, int shared_bytes,
                         int dynamic_shared_bytes = 0, int capability = 80) {
    return blocks_per_multiprocessor({.block = {threads / 2, 2, 1},
                                      .registers_per_thread = registers,
                                      .static_shared_bytes = shared_bytes,
                                      .dynamic_shared_bytes = dynamic_shared_bytes},
                                     device_of(capability));
  };
  EXPECT_EQ(blocks(1024, 32, 0), 2) << "threads";
  EXPECT_EQ(blocks(64, 56, 0), 18) << "registers, in groups of 8";
  EXPECT_EQ(blocks(1024, 65, 0), 0) << "does not run";
  EXPECT_EQ(blocks(64, 32, 40 << 10), 4);
  EXPECT_EQ(blocks(64, 32, 20 << 10, 20 << 10), 4);
  EXPECT_FALSE(blocks(64, 32, 0, 0, 990));
}

}  // namespace
}  // namespace reprolab::profiling
