// Tests that need a GPU. Times are only compared with one another, never with a number.
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>

#include "profiling/activity.hpp"
#include "profiling/basics.hpp"
#include "profiling/ceilings.hpp"
#include "profiling/clocks.hpp"
#include "profiling/cuda_check.hpp"
#include "profiling/event_timer.hpp"
#include "profiling/instrument.hpp"
#include "profiling/machine.hpp"
#include "profiling/nvtx.hpp"
#include "tests/on_gpu.hpp"
#include "tests/refusal.hpp"

namespace reprolab::profiling {
namespace {

class OnGpuProfiling : public OnGpuTest {};

TEST_F(OnGpuProfiling, NvmlKnowsTheSameGpu) {
  std::string why_not;
  const auto device = find_nvml_device(gpu->pci_bus_id, &why_not);
  if (!device) GTEST_SKIP() << "NOT TESTED, " << why_not;
  ClockObserver observer(device);
  observer.stop();
  const nlohmann::json sm_mhz = summarize(observer.snapshots()).at("sm_mhz");
  ASSERT_FALSE(sm_mhz.is_null());
  EXPECT_GT(sm_mhz.at("median"), 50);
  EXPECT_LT(sm_mhz.at("median"), 4000);
}

TEST_F(OnGpuProfiling, EventTimerKeepsTheHostAheadAndSurvivesABatchThatThrowsOrWaits) {
  const Stream stream;
  const DeviceBuffer buffer(1 << 20);
  EventTimer timer;
  const Batch batch{.enqueue = [&](cudaStream_t s) {
    for (int i = 0; i < 50; ++i) ceilings::write_only(buffer.data(), buffer.bytes(), s);
  }};
  batch.enqueue(stream.get());  // loads the kernel
  EXPECT_TRUE(timer.time(batch, stream.get()).host_ahead);
  const Batch throwing{.enqueue = [](cudaStream_t) { throw std::runtime_error("planted"); }};
  EXPECT_THROW(timer.time(throwing, stream.get()), std::runtime_error);
  const Batch waiting{
      .enqueue = [&](cudaStream_t s) { check(cudaStreamSynchronize(s), "waiting"); }};
  EXPECT_FALSE(timer.time(waiting, stream.get()).host_ahead);
  const BatchTime again = timer.time(batch, stream.get());
  EXPECT_TRUE(again.host_ahead);
  EXPECT_GT(again.us, 0);
  EXPECT_GT(again.host_us, again.us) << "the host waits for the whole batch";
}

/// One byte that the batch sets, read while the stream is held and after the stop event.
TEST_F(OnGpuProfiling, EventTimerCallsWhileBlockedAndAfterStopInTime) {
  const Stream stream, beside(cudaStreamNonBlocking);
  const DeviceBuffer buffer(1);
  check(cudaMemset(buffer.data(), 0, 1), "clearing");
  MappedArray<unsigned char> held(1), after(1);
  const auto look = [&](unsigned char* to, cudaStream_t on) {
    check(cudaMemcpyAsync(to, buffer.data(), 1, cudaMemcpyDeviceToHost, on), "looking");
  };
  EventTimer timer;
  timer.time({.enqueue = [&](cudaStream_t s) { cudaMemsetAsync(buffer.data(), 7, 1, s); },
              .while_blocked =
                  [&] {
                    look(held.data(), beside.get());
                    beside.synchronize();
                  },
              .after_stop = [&](cudaStream_t s) { look(after.data(), s); }},
             stream.get());
  EXPECT_EQ(*held.data(), 0);
  EXPECT_EQ(*after.data(), 7);
}

/// All instruments on one work with two parts.
TEST_F(OnGpuProfiling, InstrumentsRunTheWorkOnceAndReadTheirMetrics) {
  const DeviceBuffer buffer(1 << 22);
  const Stream stream;
  int runs = 0;
  const Work work{.name = "work",
                  .calls = 10,
                  .per_call = true,
                  .enqueue =
                      [&](cudaStream_t s, const Call& call) {
                        ++runs;
                        for (int i = 0; i < 10; ++i) {
                          call("kernel_time", [&] {
                            ceilings::write_only(buffer.data(), buffer.bytes(), s);
                            ceilings::write_only(buffer.data(), 4096, s);
                          });
                          call("product_time",
                               [&] { ceilings::write_only(buffer.data(), buffer.bytes(), s); });
                        }
                      },
                  .held = true};
  const auto none = make_instrument(InstrumentKind::none)->measure(work, stream.get());
  EXPECT_TRUE(none.readings.empty());
  EXPECT_FALSE(none.held) << "a profiler may run one kernel at a time";
  const auto events = make_instrument(InstrumentKind::events)->measure(work, stream.get());
  ASSERT_EQ(events.readings.size(), 1u);
  EXPECT_EQ(events.readings[0].name, "kernel_time");
  EXPECT_DOUBLE_EQ(events.readings[0].value, events.held->us / 10);
  EXPECT_TRUE(events.launched.empty());
  const auto recorder = make_instrument(InstrumentKind::activity);
  const auto activity = recorder->measure(work, stream.get());
  ASSERT_EQ(activity.readings.size(), 2u);
  EXPECT_EQ(activity.readings[0].name, "kernel_time");
  EXPECT_EQ(activity.readings[1].name, "product_time");
  ASSERT_EQ(activity.launched.size(), 10u);
  for (const auto& call : activity.launched) EXPECT_EQ(call.size(), 2u);
  EXPECT_EQ(activity.foreign, 0) << "the kernel that holds the stream is the harness's";
  int threads = 0;
  check(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, 0), "asking");
  const KernelActivity& kernel = activity.launched[0][0];
  EXPECT_EQ(kernel.blocks_per_multiprocessor.value(), threads / kernel.block[0])
      << "a kernel with few registers and no shared memory fills the multiprocessor";
  EXPECT_GE(activity.span_us, 10 * (activity.readings[0].value + activity.readings[1].value));
  // Both are of the same 30 kernels, in microseconds; a longer chain tests their agreement.
  EXPECT_GT(activity.held->us, activity.span_us / 2);
  EXPECT_LT(activity.held->us, activity.span_us * 2);
  EXPECT_EQ(runs, 3);
}

/// A kernel, a copy and a fill per call; in between, a copy that no call launched, and one that
/// belongs to the harness.
TEST_F(OnGpuProfiling, CopiesAndFillsAreActivityAndForeignWorkIsCounted) {
  const auto recorder = make_instrument(InstrumentKind::activity);
  const Stream stream;
  const DeviceBuffer from(1 << 22), to(1 << 22);
  const auto copy = [&](cudaStream_t s) {
    check(cudaMemcpyAsync(to.data(), from.data(), to.bytes(), cudaMemcpyDeviceToDevice, s), "copy");
  };
  const auto measure = [&](bool untagged) {
    return recorder->measure({.name = "copies",
                              .calls = 3,
                              .enqueue =
                                  [&](cudaStream_t s, const Call& call) {
                                    for (int i = 0; i < 3; ++i) {
                                      call("kernel_time", [&] {
                                        ceilings::write_only(to.data(), to.bytes(), s);
                                        copy(s);
                                        check(cudaMemsetAsync(to.data(), 1, to.bytes(), s), "fill");
                                      });
                                      call("", [&] { copy(s); });
                                      if (untagged && i == 1) copy(s);
                                    }
                                  }},
                             stream.get());
  };
  const Sample sample = measure(false);
  ASSERT_EQ(sample.launched.size(), 3u);
  for (const auto& call : sample.launched) {
    ASSERT_EQ(call.size(), 3u);
    EXPECT_TRUE(call[0].is_kernel);
    EXPECT_EQ(call[1].name, "copy");
    EXPECT_EQ(call[2].name, "fill");
  }
  ASSERT_EQ(sample.readings.size(), 1u);
  EXPECT_EQ(sample.foreign, 0);
  EXPECT_EQ(measure(true).foreign, 1);
}

// Two clocks on one chain: the events' span must equal the records' span, gaps included.
TEST_F(OnGpuProfiling, EventTimerAndActivityAgreeWithinOnePercent) {
  ActivityRecorder recorder;
  const Stream stream;
  const DeviceBuffer from(64 << 20), to(256 << 20);
  check(cudaMemset(from.data(), 0, from.bytes()), "filling device memory");
  EventTimer timer;
  const Batch chain{.enqueue = [&](cudaStream_t s) {
    const ScopedTag tag(recorder, 1);  // within the batch, so without the hold before it
    for (int i = 0; i < 40; ++i) {
      ceilings::same_bytes(from.data(), from.bytes(), to.data(), to.bytes(), s);
    }
  }};
  timer.time(chain, stream.get());
  recorder.flush();
  for (int repetition = 0; repetition < 3; ++repetition) {
    const NvtxRange range("tests", "same_bytes", "chain");
    const BatchTime events = timer.time(chain, stream.get());
    auto kernels = recorder.flush();
    std::erase_if(kernels, [](const KernelActivity& kernel) { return kernel.tag != 1; });
    const ActivitySum records = sum(kernels);
    EXPECT_TRUE(events.host_ahead);
    EXPECT_EQ(kernels.size(), 40u);
    EXPECT_NEAR(events.us / records.span_us(), 1.0, 0.01);
    EXPECT_LE(records.busy_us, records.span_us() * 1.001);
    std::printf("events %.1f us, records %.1f us, of it kernels %.1f us\n", events.us,
                records.span_us(), records.busy_us);
  }
}

/// Graphs repeat their launches, and a failed capture leaves the stream as it was.
class OnGpuGraph : public OnGpuTest {
 protected:
  void SetUp() override {
    OnGpuTest::SetUp();
    if (IsSkipped()) return;
    stream_.emplace();
    memory_ = DeviceBuffer(4);
    set(0);
    stream_->synchronize();
  }

  void set(int byte) const {
    check(cudaMemsetAsync(memory_.data(), byte, 4, stream_->get()), "setting");
  }

  unsigned value() const {
    unsigned value = 0;
    check(cudaMemcpyAsync(&value, memory_.data(), 4, cudaMemcpyDeviceToHost, stream_->get()),
          "reading");
    stream_->synchronize();
    return value;
  }

  std::optional<Stream> stream_;
  DeviceBuffer memory_;
};

TEST_F(OnGpuGraph, RunsNothingBeforeItIsLaunchedAndThenEachTime) {
  const Graph graph(stream_->get(), [&] { set(0x11); });
  EXPECT_EQ(value(), 0u);
  for (int i = 0; i < 2; ++i) {
    graph.launch(stream_->get());
    EXPECT_EQ(value(), 0x11111111u);
    set(0);
    EXPECT_EQ(value(), 0u);
  }
}

TEST_F(OnGpuGraph, AFailedCaptureThrowsAndTheStreamWorksAsBefore) {
  EXPECT_THROW(Graph(stream_->get(),
                     [&] {
                       void* memory = nullptr;
                       check(cudaMalloc(&memory, 4), "allocating in a capture");
                     }),
               CudaError);
  set(0x22);
  EXPECT_EQ(value(), 0x22222222u);
  EXPECT_THROW(Graph(stream_->get(), [] { throw std::logic_error("not CUDA's"); }),
               std::logic_error);
  set(0x33);
  EXPECT_EQ(value(), 0x33333333u);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace reprolab::profiling
