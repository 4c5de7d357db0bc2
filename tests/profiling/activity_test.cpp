// Activity records of a fake CUPTI (fake_cupti.cpp), and the values computed from them.
#include "profiling/activity.hpp"

#include <dlfcn.h>

#include <stdexcept>

#include "profiling/basics.hpp"
#include "profiling/instrument.hpp"
#include "tests/profiling/testing.hpp"

namespace reprolab::profiling {
namespace {

void launch(const char* name, std::uint64_t start_ns, std::uint64_t end_ns) {
  using Launch = void (*)(const char*, std::uint64_t, std::uint64_t);
  void* const fake = dlsym(dlopen(FAKE_CUPTI, RTLD_NOW), "fake_cupti_launch");
  reinterpret_cast<Launch>(fake)(name, start_ns, end_ns);
}

class Activities : public testing::Test {
 private:
  ScopedVariable library_{"REPROLAB_CUPTI", FAKE_CUPTI};
};

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
  }
  for (const char* variable : {"NV_NSIGHT_INJECTION_TRANSPORT_TYPE", "NSYS_PROFILING_SESSION_ID",
                               "CUDA_INJECTION64_PATH"}) {
    const ScopedVariable profiler(variable, "1");
    expect_refusal();
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

KernelActivity activity(std::optional<std::uint64_t> tag, std::uint64_t start_us,
                        std::uint64_t end_us) {
  return {.name = "k", .start_ns = 1000 * start_us, .end_ns = 1000 * end_us, .tag = tag};
}

/// Records of two calls, whose launches have the tags 1 and 3; the harness has 0 and 2.
Sample read(std::vector<KernelActivity> recorded) {
  const Work two_calls{.name = "k", .calls = 2, .per_call = true, .enqueue = {}};
  return read_activity(two_calls, {"", "kernel_time", "", "kernel_time"}, std::move(recorded));
}

TEST(ReadActivity, SumsTheCallsAndLeavesTheHarnessOut) {
  const Sample sample =
      read({activity(0, 1, 9), activity(1, 10, 14), activity(2, 14, 20), activity(3, 20, 26)});
  ASSERT_EQ(sample.readings.size(), 1u);
  EXPECT_EQ(sample.readings[0].name, "kernel_time");
  EXPECT_DOUBLE_EQ(sample.readings[0].value, 5);
  EXPECT_EQ(sample.launched.size(), 2u);
  EXPECT_DOUBLE_EQ(sample.span_us, 16);
  EXPECT_EQ(sample.foreign, 0);
  EXPECT_EQ(sample.lost, "");
}

TEST(ReadActivity, WorkThatNoCallLaunchedIsForeign) {
  const Sample sample = read({activity({}, 1, 9), activity(1, 10, 14), activity({}, 15, 16),
                              activity(3, 20, 26), activity({}, 30, 31)});
  EXPECT_EQ(sample.foreign, 1);
  EXPECT_EQ(sample.lost, "");
}

/// Its records may be lost, or its work may be foreign: launched by another thread.
TEST(ReadActivity, ACallWithoutRecordsLeavesNoReadings) {
  Sample sample = read({activity(0, 1, 9), activity(3, 20, 26)});
  EXPECT_TRUE(sample.readings.empty());
  EXPECT_TRUE(sample.launched.empty());
  EXPECT_EQ(sample.foreign, 0);
  EXPECT_EQ(sample.lost,
            "CUPTI recorded no work for 1 of 2 calls; a time that leaves them out is meaningless; "
            "run again");
  sample = read({activity(0, 1, 9), activity({}, 10, 14)});
  EXPECT_EQ(sample.foreign, 1);
  EXPECT_FALSE(sample.lost.empty());
}

}  // namespace
}  // namespace reprolab::profiling
