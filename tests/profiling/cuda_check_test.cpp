#include "profiling/cuda_check.hpp"

#include <stdexcept>

#include "common/not_measured.hpp"
#include "tests/profiling/testing.hpp"

namespace reprolab::profiling {
namespace {

TEST(CudaCheck, SuccessIsSilent) { EXPECT_NO_THROW(check(cudaSuccess, "anything")); }

TEST(CudaCheck, MessageHasStepErrorPlaceAndHint) {
  const auto here = std::source_location::current();
  const std::string message =
      message_of<std::runtime_error>([&] { check(cudaErrorNoDevice, "making a stream", here); });
  EXPECT_EQ(message,
            "making a stream: cudaErrorNoDevice, no CUDA-capable device is detected "
            "(cuda_check_test.cpp:" +
                std::to_string(here.line()) +
                "). No NVIDIA GPU is visible: look at `nvidia-smi` and CUDA_VISIBLE_DEVICES.");
}

TEST(CudaCheck, PlaceIsTheCallers) {
  const std::string message =
      message_of<std::runtime_error>([] { check(cudaErrorIllegalAddress, "running a kernel"); });
  EXPECT_NE(message.find("(cuda_check_test.cpp:"), std::string::npos) << message;
  EXPECT_NE(message.find("compute-sanitizer"), std::string::npos) << message;
}

TEST(CudaCheck, EveryMessageIsOneLine) {
  for (int code = 1; code < 1000; ++code) {
    const auto message = cuda_error_message(static_cast<cudaError_t>(code), "a step",
                                            std::source_location::current());
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

/// No kernel's launch goes through check().
TEST(CudaCheck, MemoryThatRanOutIsAFaultOfTheHarness) {
  const std::string message = message_of<NotMeasured>(
      [] { check(cudaErrorMemoryAllocation, "making a graph executable"); });
  EXPECT_TRUE(message.starts_with("making a graph executable: cudaErrorMemoryAllocation, "));
  EXPECT_THROW(check(cudaErrorIllegalAddress, "running a kernel"), CudaError);
}

TEST(CudaCheck, OutOfMemorySaysAskedAndFree) {
  EXPECT_EQ(out_of_memory_message(12ull << 30, 3ull << 30, 80ull << 30),
            "device memory: 12.00 GiB asked for, 3.00 GiB of 80.00 GiB free. Choose a smaller "
            "problem, or end what else runs on this GPU (`nvidia-smi`).");
}

TEST(DeviceBuffer, ZeroBytesNeedNoGpu) {
  DeviceBuffer empty(0);
  EXPECT_EQ(empty.data(), nullptr);
  DeviceBuffer moved = std::move(empty);
  EXPECT_EQ(moved.bytes(), 0u);
}

}  // namespace
}  // namespace reprolab::profiling
