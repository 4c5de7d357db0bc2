// Graphs on a GPU: what they repeat, and that a failed capture leaves the stream as it was.
#include "profiling/graph.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>

#include "profiling/cuda_check.hpp"
#include "tests/on_gpu.hpp"

namespace reprolab::profiling {
namespace {

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
    unsigned found = 0;
    check(cudaMemcpyAsync(&found, memory_.data(), 4, cudaMemcpyDeviceToHost, stream_->get()),
          "reading");
    stream_->synchronize();
    return found;
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
