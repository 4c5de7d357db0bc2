#include "profiling/occupancy.hpp"

#include <gtest/gtest.h>

namespace reprolab::profiling {
namespace {

/// An A100, from NVIDIA's table of compute capabilities ("CUDA C++ Programming Guide").
cudaDeviceProp a100() {
  cudaDeviceProp device{};
  device.major = 8;
  device.minor = 0;
  device.maxThreadsPerBlock = 1024;
  device.maxThreadsPerMultiProcessor = 2048;
  device.regsPerBlock = 65536;
  device.regsPerMultiprocessor = 65536;
  device.warpSize = 32;
  device.sharedMemPerBlock = 48 << 10;
  device.sharedMemPerMultiprocessor = 164 << 10;
  device.sharedMemPerBlockOptin = 163 << 10;
  device.reservedSharedMemPerBlock = 1 << 10;
  device.multiProcessorCount = 108;
  return device;
}

/// A T4, from the same table.
cudaDeviceProp t4() {
  cudaDeviceProp device = a100();
  device.major = 7;
  device.minor = 5;
  device.maxThreadsPerMultiProcessor = 1024;
  device.sharedMemPerMultiprocessor = 64 << 10;
  device.sharedMemPerBlockOptin = 64 << 10;
  device.reservedSharedMemPerBlock = 0;
  device.multiProcessorCount = 40;
  return device;
}

KernelActivity launch(int threads, std::uint32_t registers, int shared_bytes) {
  return {.block = {threads, 1, 1},
          .registers_per_thread = registers,
          .static_shared_bytes = shared_bytes};
}

TEST(Occupancy, IsLimitedByWhateverRunsOutFirst) {
  // Registers come in groups of 8 per thread, and warps in groups of 4.
  EXPECT_EQ(blocks_per_multiprocessor(launch(64, 56, 0), a100()), 18);
  EXPECT_EQ(blocks_per_multiprocessor(launch(64, 32, 0), a100()), 32);        // blocks
  EXPECT_EQ(blocks_per_multiprocessor(launch(1024, 32, 0), a100()), 2);       // threads
  EXPECT_EQ(blocks_per_multiprocessor(launch(1024, 65, 0), a100()), 0);       // does not run
  EXPECT_EQ(blocks_per_multiprocessor(launch(64, 32, 40 << 10), a100()), 4);  // shared memory
}

TEST(Occupancy, OfAT4IsHalfOfTheWarps) {
  EXPECT_EQ(blocks_per_multiprocessor(launch(512, 16, 64), t4()), 2);  // threads
  EXPECT_EQ(blocks_per_multiprocessor(launch(1024, 16, 64), t4()), 1);
  EXPECT_EQ(blocks_per_multiprocessor(launch(512, 128, 0), t4()), 1);    // registers
  EXPECT_EQ(blocks_per_multiprocessor(launch(32, 16, 0), t4()), 16);     // blocks
  EXPECT_EQ(blocks_per_multiprocessor(launch(32, 16, 4096), t4()), 16);  // shared memory
  EXPECT_EQ(blocks_per_multiprocessor(launch(32, 16, 4097), t4()), 15);  // 256 bytes more
}

TEST(Occupancy, OfADeviceThatTheCalculatorDoesNotKnowIsNotKnown) {
  cudaDeviceProp unknown = a100();
  unknown.major = 99;
  EXPECT_FALSE(blocks_per_multiprocessor(launch(64, 56, 0), unknown));
}

}  // namespace
}  // namespace reprolab::profiling
