// The recorder with a fake CUPTI (fake_cupti.cpp).
#include <dlfcn.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "common/not_measured.hpp"
#include "profiling/activity.hpp"
#include "tests/profiling/testing.hpp"

namespace reprolab::profiling {
namespace {

template <class Function>
Function fake_function(const char* symbol) {
  return reinterpret_cast<Function>(dlsym(dlopen(FAKE_CUPTI, RTLD_NOW), symbol));
}

void launch(const char* name, std::uint64_t start_ns, std::uint64_t end_ns) {
  fake_function<void (*)(const char*, std::uint64_t, std::uint64_t)>("fake_cupti_launch")(
      name, start_ns, end_ns);
}

std::size_t enabled_kinds() {
  return fake_function<std::size_t (*)()>("fake_cupti_enabled_kinds")();
}

class ActivityRecorderFake : public testing::Test {
 private:
  ScopedVariable library_{"REPROLAB_CUPTI", FAKE_CUPTI};
};

TEST_F(ActivityRecorderFake, RecordsBetweenStartAndStopOnly) {
  ActivityRecorder recorder;
  launch("before", 1, 2);
  recorder.start();
  recorder.start();
  launch("first", 10, 20);
  EXPECT_EQ(recorder.flush().size(), 1u);
  EXPECT_TRUE(recorder.flush().empty());
  launch("second", 30, 40);
  recorder.stop();
  launch("after", 50, 60);
  EXPECT_EQ(enabled_kinds(), 0u);
  recorder.start();
  EXPECT_TRUE(recorder.flush().empty());
}

TEST_F(ActivityRecorderFake, TheInnermostTagWins) {
  ActivityRecorder recorder;
  recorder.start();
  launch("untagged", 10, 20);
  {
    const ScopedTag outer(recorder, 1);
    launch("outer", 30, 40);
    {
      const ScopedTag inner(recorder, 2);
      launch("inner", 50, 60);
    }
    launch("outer", 70, 80);
  }
  const auto kernels = recorder.flush();
  ASSERT_EQ(kernels.size(), 4u);
  EXPECT_FALSE(kernels[0].tag);
  EXPECT_EQ(kernels[1].tag, 1u);
  EXPECT_EQ(kernels[2].tag, 2u);
  EXPECT_EQ(kernels[3].tag, 1u);
}

TEST_F(ActivityRecorderFake, HundredsOfThousandsOfRecords) {
  constexpr std::uint64_t count = 300'000;
  ActivityRecorder recorder;
  recorder.start();
  for (int pass = 0; pass < 2; ++pass) {
    const ScopedTag tag(recorder, 5);
    for (std::uint64_t i = 1; i <= count; ++i) launch("_Z6kernelv", 10 * i, 10 * i + 7);
    const auto kernels = recorder.flush();
    EXPECT_EQ(kernels.size(), count);
    EXPECT_EQ(kernels.back().tag, 5u);
    EXPECT_NEAR(sum(kernels).busy_us, 7e-3 * count, 1e-6 * count);
  }
}

TEST_F(ActivityRecorderFake, DroppedRecordsAreAnError) {
  const ScopedVariable dropped("FAKE_CUPTI_DROPPED", "3");
  ActivityRecorder recorder;
  recorder.start();
  EXPECT_EQ(message_of<NotMeasured>([&] { recorder.flush(); }),
            "activity recording: CUPTI dropped 3 records for lack of memory. Flush more often, or "
            "free host memory.");
}

/// A loss that nobody needs is none, and one that is told leaves nothing for the next flush.
TEST_F(ActivityRecorderFake, WhatIsDiscardedIsNoLoss) {
  ActivityRecorder recorder;
  recorder.start();
  launch("in between", 10, 20);
  {
    const ScopedVariable dropped("FAKE_CUPTI_DROPPED", "3");
    EXPECT_NO_THROW(recorder.discard());
  }
  launch("unfinished", 30, 0);
  EXPECT_NO_THROW(recorder.discard());
  launch("unfinished", 30, 0);
  EXPECT_THROW(recorder.flush(), NotMeasured);
  launch("wanted", 50, 60);
  const auto kernels = recorder.flush();
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].name, "wanted");
}

TEST_F(ActivityRecorderFake, AnotherProfilerIsToldWhatToDo) {
  const std::string remedy = " Run with --instrument=none under the profiler, or outside of it.";
  const std::string busy = "CUPTI_ERROR_HARDWARE_BUSY (26)",
                    second = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39)";
  for (const auto& [function, code, error] :
       {std::tuple{"cuptiActivityRegisterCallbacks", "39", second},
        {"cuptiActivityEnable", "39", second},
        {"cuptiActivityEnable", "26", busy}}) {
    const ScopedVariable fail("FAKE_CUPTI_FAIL", std::string(function) + "=" + code);
    ActivityRecorder recorder;
    EXPECT_EQ(message_of<std::runtime_error>([&] { recorder.start(); }),
              std::string("activity recording: ") + function + " failed: " + error +
                  ". Another profiler holds the GPU or this process." + remedy);
    EXPECT_EQ(enabled_kinds(), 0u);
  }
  for (const char* variable : {"NV_NSIGHT_INJECTION_TRANSPORT_TYPE", "NSYS_PROFILING_SESSION_ID",
                               "CUDA_INJECTION64_PATH"}) {
    const ScopedVariable profiler(variable, "1");
    EXPECT_EQ(message_of<std::runtime_error>([] { ActivityRecorder recorder; }),
              std::string("activity recording: a profiler already holds this process (") +
                  variable + " is set), and CUPTI serves one at a time." + remedy);
  }
  EXPECT_NO_THROW(ActivityRecorder{});
}

TEST_F(ActivityRecorderFake, OneAtATime) {
  const ActivityRecorder first;
  EXPECT_EQ(message_of<std::logic_error>([] { ActivityRecorder second; }),
            "activity recording: a second ActivityRecorder; CUPTI supports only one");
}

TEST(ActivityRecorder, MissingCupti) {
  const ScopedVariable library("REPROLAB_CUPTI", "/nonexistent/libcupti.so");
  EXPECT_EQ(message_of<std::runtime_error>([] { ActivityRecorder recorder; }),
            "activity recording: CUPTI cannot be loaded (/nonexistent/libcupti.so: cannot open "
            "shared object file: No such file or directory). Install the toolkit's CUPTI package "
            "(cuda-cupti), or name the library in REPROLAB_CUPTI; --instrument=none needs no "
            "CUPTI, but measures no times.");
}

TEST(ActivityRecorder, ALibraryThatIsNotCupti) {
  const ScopedVariable library("REPROLAB_CUPTI", FAKE_NVML);
  EXPECT_EQ(message_of<std::runtime_error>([] { ActivityRecorder recorder; }),
            "activity recording: the CUPTI library lacks cuptiGetResultString, "
            "cuptiActivityRegisterCallbacks, cuptiActivityEnable, cuptiActivityDisable, "
            "cuptiActivityFlushAll, cuptiActivityGetNextRecord, "
            "cuptiActivityGetNumDroppedRecords, cuptiActivityPushExternalCorrelationId, "
            "cuptiActivityPopExternalCorrelationId. Use the CUPTI of CUDA 12.4 or newer.");
}

}  // namespace
}  // namespace reprolab::profiling
